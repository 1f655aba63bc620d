"""Files with a correct checksum and invalid content raise FileError."""

import dataclasses
import json

import numpy as np
import pytest

import remanence as rm
from remanence.store.format.encode import decode
from remanence.store.format.safetensors_file import packed, parse
from remanence.store.model_file import from_bytes
from remanence.store.records.linear import RENAMED
from remanence.store.records.registry import RECORDS, class_of

from .conftest import content_of


def rewritten(learner, change):
    """The bytes of the learner's file after someone changed tree and arrays, and worked out the checksum anew."""
    words, arrays = parse(content_of(learner))
    del words["sha256"]
    tree = json.loads(words["learner"])
    tree = change(tree, arrays) or tree
    words["learner"] = json.dumps(tree)
    return b"".join(map(bytes, packed(words, {name: np.ascontiguousarray(a) for name, a in arrays.items()})))


def pair():
    method = rm.RLS(ridge=0.5)
    state = method.update(method.init(3, 2), np.eye(3), np.ones((3, 2)))
    method.weights(state)
    return method, state


def put(path, value):
    """A change of one part of the tree; a path is keys one after the other."""
    *way, last = path.split("/")

    def change(tree, arrays):
        for key in way:
            tree = tree[key]
        tree[last] = value

    return change


def drop(path):
    *way, last = path.split("/")

    def change(tree, arrays):
        for key in way:
            tree = tree[key]
        del tree[last]

    return change


def resize(name, array):
    def change(tree, arrays):
        assert name in arrays
        arrays[name] = array

    return change


STATE = "parts/state/parts"
BARE = {"class": "RLS", "parts": {"ridge": 1, "forget": 1, "floor": 0}}
CHANGES = {
    "unknown class": (put("class", "os.system"), "a class that this version knows"),
    "a module": (put("parts/method", {"class": "builtins", "parts": {}}), "a class that this version knows"),
    "part missing": (drop(f"{STATE}/start"), "without 'start'"),
    "part extra": (put(f"{STATE}/mood", 1), "with 'mood'"),
    "unknown kind of value": (put(f"{STATE}/count", {"code": "1"}), "values that this version knows"),
    "two words": (put(f"{STATE}/count", {"tuple": [], "dict": []}), "values that this version knows"),
    "array missing": (put(f"{STATE}/start", {"array": "no such"}), "values that this version knows"),
    "count negative": (put(f"{STATE}/count", -1), "count: expected an integer"),
    "count no number": (put(f"{STATE}/count", "3"), "count: expected an integer"),
    "count too small": (put(f"{STATE}/count", 1), "at most 1 pending rows"),
    "ridge no ridge": (put(f"{STATE}/ridge", "much"), "expected a ridge"),
    "setting refused": (put("parts/method/parts/ridge", -1.0), "parts of a RLS are invalid: expected ridge"),
    "another method": (put("parts/method", {"class": "LMS", "parts": {"step": 1.0, "normalized": True}}), "of LMS"),
    "state for method": (put("parts/state", BARE), "the state of a method"),
    "too many outputs": (resize("state.start", np.zeros((3, 3))), r"expected the shape \(3, 2\), got \(3, 3\)"),
    "flat": (resize("state.start", np.zeros(6)), r"expected the shape \(3, 2\)"),
    "other precision": (resize("state.start", np.zeros((3, 2), np.float32)), "one precision"),
    "integers": (resize("state.start", np.zeros((3, 2), int)), "expected float64 or float32"),
    "triangle too short": (resize("state.data.triangle", np.zeros(5)), "a triangle of 6 numbers"),
    "room too small": (put(f"{STATE}/waiting/parts/room", 2), "expected room"),
    "room too large": (put(f"{STATE}/waiting/parts/room", 10**12), "expected room"),
    "root without images": (put(f"{STATE}/waiting/parts/S", None), "or neither"),
    "singular root": (
        resize("state.waiting.base.triangle", np.zeros(6)),
        "the information is singular",
    ),
    "same as nothing": (put(f"{STATE}/known", {"same": 99}), "values that this version knows"),
    "axes of another array": (put(f"{STATE}/start/axes", [0, 5]), "other axes"),
    "shape that is none": (put(f"{STATE}/start/shape", [3, 7]), "expected an array for"),
    "elements of no kind": (put(f"{STATE}/start/dtype", "|O8"), "expected a dtype"),
    "an array too many": (lambda tree, arrays: arrays.update(more=np.zeros(2)), "got also more"),
    "no learner": (lambda tree, arrays: (arrays.clear(), BARE)[1], "expected a learner, got .*RLS"),
    "a number": (lambda tree, arrays: (arrays.clear(), 7)[1], "expected a learner, got"),
    "a plain tuple": (lambda tree, arrays: (arrays.clear(), {"tuple": [1, 2]})[1], "expected a learner, got"),
    "a class of no name": (put("class", ["RLS"]), "expected"),
    "too deep": (put(f"{STATE}/count", json.loads("[" * 900 + "]" * 900)), "invalid"),
}  # fmt: skip


@pytest.fixture
def rows_wait(monkeypatch):
    """Write pairs as earlier versions did, with the rows that wait: such files are still read."""
    monkeypatch.setattr(rm.RLS, "settled", lambda method, state: state)


@pytest.mark.parametrize("name", CHANGES)
def test_an_invalid_file_raises_file_error(name, rows_wait):
    change, words = CHANGES[name]
    with pytest.raises(rm.FileError, match=words):
        from_bytes(rewritten(pair(), change))


def test_rewriting_alone_is_no_reason_to_refuse(rows_wait):
    """The tests above change something; without a change the file is read."""
    method, state = from_bytes(rewritten(pair(), lambda tree, arrays: None)).learner
    assert content_of((method, state)) == content_of(pair())


def nodes(tree):
    """Every place in the tree, as (container, key)."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inner):
        yield tree, key
        yield from nodes(value)


ODD = [None, True, -1, 0, 3, 10**30, 0.5, 1e308, "", "auto", "RLS", [], [1], {}, {"same": 0}, {"float": "nan"},
       {"array": "state.start"}, {"tuple": [1]}, {"names": ["a"]}, {"scalar": ["<f8", "00"]}, {"dict": [[[], 1]]},
       {"numbers": {"array": "state.start"}}, {"external": ["features", "x"]}, {"dtype": "<f4"}]  # fmt: skip


@pytest.mark.parametrize("kind", ["rls", "apa", "kalman", "classifier", "filtered"])
def test_no_change_of_the_tree_gets_anything_but_a_refusal_or_a_learner(kind, small):
    """Three hundred random changes: whatever stands where, it is refused in words, or it is a learner."""
    rng = np.random.default_rng(0)
    kalman, apa = rm.Kalman(0.1, lag=1), rm.APA(None)
    X, Y = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    model = rm.kalman.LinearGaussian(np.eye(2), np.eye(2), np.ones((1, 2)), np.eye(1), np.zeros(2), np.eye(2))
    learner = {
        "rls": pair,
        "apa": lambda: (apa, apa.update(apa.init(3, 2), X, Y)),
        "kalman": lambda: (kalman, kalman.update(kalman.update(kalman.init(3, 2), X, Y), X, Y)),
        "classifier": lambda: small,
        "filtered": lambda: rm.kalman.filter(model, Y[:, :1]),
    }[kind]()
    words, arrays = parse(content_of(learner))
    refused = 0
    for _ in range(300):
        tree = json.loads(words["learner"])
        places = list(nodes(tree))
        container, key = places[rng.integers(len(places))]
        container[key] = ODD[rng.integers(len(ODD))]
        named = json.dumps(tree)
        used = {name: array for name, array in arrays.items() if f'"{name}"' in named}
        try:
            decode(tree, used, lambda wanted: rm.RandomFeatures())
        except rm.FileError:
            refused += 1
    assert refused > 200


ESTIMATOR_CHANGES = {
    "a class too few": (resize("classes_", np.arange(2)), "classes_: expected 3 labels in one dimension"),
    "half learned": (drop("parts/classes_"), "without 'classes_'"),
    "no offset": (drop("parts/offset_"), "offset where there is an intercept"),
    "other width": (put("parts/n_features_in_", 7), "weights of 7 features"),
    "encoder from nowhere": (put("parts/features_fingerprint_", "x"), "fingerprint where there are"),
}


@pytest.mark.parametrize("name", ESTIMATOR_CHANGES)
def test_an_estimator_that_does_not_fit_together_is_refused(name, small):
    change, words = ESTIMATOR_CHANGES[name]
    small._now()

    def both(tree, arrays):
        change(tree, arrays)
        used = json.dumps(tree)
        for left in [n for n in arrays if f'"{n}"' not in used]:
            del arrays[left]

    with pytest.raises(rm.FileError, match=words):
        from_bytes(rewritten(small, both))


@pytest.mark.parametrize("word", ["ledger", "notes", "about", "learner"])
@pytest.mark.parametrize("value", ["[", '[["x"]]', None])
def test_invalid_metadata_raise_file_error(word, value, small):
    words, arrays = parse(content_of(small))
    del words["sha256"]
    words[word] = value
    if value is None:
        del words[word]
    with pytest.raises(rm.FileError):
        from_bytes(b"".join(map(bytes, packed(words, arrays))))


# The registry itself

REPLACED = {
    "Root": {"factor"},
    "RLSState": {"sharing"},
    "LowRankState": {"cache"},
    "Filtered": {"pairs"},  # results of complex numbers are refused
}


@pytest.mark.parametrize("name", [n for n, r in RECORDS.items() if not r.module.startswith("remanence.deep")])
def test_a_record_has_every_field_of_its_class(name):
    """A new field of a state must be stored too, or be named here as one that is computed again."""
    cls, record = class_of(name), RECORDS[name]
    if dataclasses.is_dataclass(cls):
        fields = {f.name for f in dataclasses.fields(cls) if f.init}
        if name == "Root":
            assert set(record.parts) | set(record.optional) == fields - {"factor"} | {"triangle"}
        else:
            renamed = RENAMED if name in ("RLSState", "LowRankState") else {}
            stored = {renamed.get(f, f) for f in fields - REPLACED.get(name, set())}
            assert set(record.parts) <= stored <= {*record.parts, *record.optional}
    elif name != "Waiting":
        assert set(record.parts) == set(cls().get_params(deep=False))


def test_every_method_of_the_library_can_be_stored():
    for name, entry in rm.list_methods().items():
        assert class_of(name) is entry.method
