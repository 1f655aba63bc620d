"""Model files that earlier versions wrote (tests/store/stored) still load and give the answers they gave then.

python tests/store/test_stored_files.py        writes a file for every learner that has none yet; never over an old one
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import remanence as rm
from remanence.store.model_file import from_bytes

sys.path.insert(0, str(Path(__file__).parent))  # it is also run as a script
from every_learner import DEEP, LISTED, content_of, data, network, table_for, taught, use

STORED = Path(__file__).parent / "stored"
FILES = sorted(path.stem for path in STORED.glob("*.safetensors"))
AUTOMATIC = ("RLS, auto", "classifier, text")  # ridge="auto"


def answers(learner):
    """Numbers that depend on everything that was learned; None for a guard, which only restricts steps."""
    if type(learner) is tuple:
        return learner[0].weights(learner[1])
    known = vars(learner) if hasattr(learner, "__dict__") else {}
    if "encoding_" in known:
        return learner.transform(table_for(learner))
    if hasattr(known.get("features_"), "encoding_"):
        return learner.predict(table_for(learner.features_))
    if type(learner).__name__ == "Growing":
        return learner.weights
    if hasattr(learner, "partial_fit"):
        fitted = "n_features_in_" in vars(learner)
        asks = ("decision_function", "predict", "transform")
        ask = next(getattr(learner, name) for name in asks if hasattr(learner, name))
        return ask(data(3, 4, learner.n_features_in_)[0]) if fitted else None
    return getattr(learner, "mean", None)


def outside(name):
    return {"model": network()} if name.startswith("deep.") else {}


@pytest.mark.parametrize("name", FILES)
def test_a_stored_file_gives_the_answers_of_its_time(name):
    if name in DEEP:
        pytest.importorskip("torch")
    learner = from_bytes((STORED / f"{name}.safetensors").read_bytes(), **outside(name)).learner
    with np.load(STORED / "answers.npz") as stored:
        if name in AUTOMATIC:  # what is chosen when asked may be chosen better by a later version, from the same rows
            np.testing.assert_allclose(answers(learner), answers(LISTED[name]()), rtol=1e-9, atol=1e-9)
        elif name in stored:
            rtol = 1e-4 if "float32" in name or "lowrank" in name or "two" in name else 1e-9
            rtol = 1e-6 if "conv" in name else rtol  # features of images are computed in float32
            now, then = answers(learner), stored[name]
            if "discriminant" in name:  # its scores are defined up to a number that is the same for all classes
                now, then = (scores - scores.mean(axis=1, keepdims=True) for scores in (now, then))
            np.testing.assert_allclose(now, then, rtol=rtol, atol=rtol)
    use(learner)


def test_every_learner_has_a_stored_file():
    assert {*LISTED, *DEEP} <= set(FILES)


def pending():
    """RLS with rows that are not folded in yet, as the first files of format 1 held them."""
    method, state = taught(rm.RLS(0.5))
    fold, rm.RLS.settled = rm.RLS.settled, lambda self, state: state
    try:
        return content_of((method, state))
    finally:
        rm.RLS.settled = fold


def in_pieces():
    """A file of format 2: one learner per piece."""
    from remanence.store import Entry, Ledger, content_fingerprint

    X, Y = data(0, 20)
    parts = [rm.ContinualRegressor().fit(X[part], Y[part, 0]) for part in (slice(12), slice(12, 20))]
    marks = [content_fingerprint(str(i)) for i in range(2)]
    ledger = Ledger(tuple(Entry(mark, mark[:8], part.n_seen_) for mark, part in zip(marks, parts, strict=True)))
    whole = rm.ContinualRegressor().fit(X, Y[:, 0])
    return content_of(whole, ledger=ledger, pieces=dict(zip(marks, parts, strict=True)))


if __name__ == "__main__":
    made = {name: (lambda make=make: content_of(make())) for name, make in {**LISTED, **DEEP}.items()}
    made |= {"RLS, pending rows": pending, "regressor, pieces": in_pieces}
    found = dict(np.load(STORED / "answers.npz")) if (STORED / "answers.npz").exists() else {}
    for name in sorted(made.keys() - set(FILES)):
        content = made[name]()
        (STORED / f"{name}.safetensors").write_bytes(content)
        said = answers(from_bytes(content, **outside(name)).learner)
        if said is not None:
            found[name] = np.asarray(said)
    np.savez(STORED / "answers.npz", **found)
