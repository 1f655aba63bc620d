"""`readout="auto"`: the better of the two readouts, chosen by answers to rows before they are learned."""

import copy
import json
import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

import remanence as rm
from remanence.cli import app
from remanence.cli.common.flags import message
from remanence.estimators.readouts.assessment import EVIDENCE, KINDS, NOTHING


def on_a_line(seed, rows):
    """Five classes along a line: least squares on one-hot labels masks those in the middle."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, rows)
    return np.outer(y, [3.0, 1.0]) + rng.standard_normal((rows, 2)), y


def rare_and_narrow(seed, rows):
    """A rare class of small spread: one covariance for both classes puts the threshold too low."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.1).astype(int)
    X = rng.standard_normal((rows, 3)) * np.where(y, 0.3, 1.0)[:, None] + np.outer(y, [1.0, 0, 0])
    return X, y


def taught(X, y, size=100, readout="auto", **settings):
    model = rm.ContinualClassifier(rm.RLS(**settings), readout=readout)
    for i in range(0, len(y), size):
        model.partial_fit(X[i : i + size], y[i : i + size])
    return model


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
@pytest.mark.parametrize(("data", "better"), [(on_a_line, "discriminant"), (rare_and_narrow, "ridge")])
def test_the_readout_that_is_better_on_new_rows_is_chosen_however_rows_are_cut(data, better, size):
    X, y = data(0, 400 if size == 1 else 2000)
    new = data(1, 4000)
    model = taught(X, y, size)
    assert model.readout_ == better
    scores = {readout: taught(X, y, 1000, readout).score(*new) for readout in KINDS}
    assert scores[better] > max(scores[other] for other in KINDS if other != better) + 0.003
    assert model.score(*new) == scores[better]


def test_forgetting_models_choose_too():
    assert taught(*on_a_line(0, 600), size=50, forget=0.999).readout_ == "discriminant"


def test_answers_and_probabilities_are_those_of_the_choice():
    X, y = on_a_line(2, 500)
    chosen, given = taught(X, y), taught(X, y, readout="discriminant")
    np.testing.assert_array_equal(chosen.predict_proba(X), given.predict_proba(X))
    np.testing.assert_array_equal(chosen.coef_, given.coef_)
    assert chosen.calibration_.readout == "discriminant"


def test_readouts_that_are_equally_good_do_not_alternate():
    rng = np.random.default_rng(0)
    changes = 0
    for _ in range(10):
        found, before = NOTHING, "ridge"
        for seen in range(50, 2000, 50):
            y = rng.integers(0, 2, 50)
            answers = {kind: rng.random((50, 2)) + 0.5 * np.eye(2)[y] for kind in KINDS}
            found = found.updated(answers, y, np.ones(50), seen, 2)
            changes, before = changes + (found.choice != before), found.choice
    assert changes <= 10  # in 390 decisions


def test_the_choice_changes_with_evidence_and_back():
    y = np.zeros(10, int)
    right, wrong = np.tile([1.0, 0.0], (10, 1)), np.tile([0.0, 1.0], (10, 1))
    for_it = {"ridge": wrong, "discriminant": right}
    against = {"ridge": right, "discriminant": wrong}
    found = NOTHING.updated(for_it, y, np.ones(10), 10, 2)
    assert found.choice == "discriminant"  # 10 to 0, more than 2.5 deviations
    one_more = found.updated(against, y, np.ones(10), 10, 2)
    assert one_more.choice == "discriminant"  # 10 to 10
    while one_more.choice == "discriminant":
        lead = one_more.alone[0] - one_more.alone[1]
        assert lead <= EVIDENCE * np.sqrt(one_more.discordant)
        one_more = one_more.updated(against, y, np.ones(10), 10, 2)
    assert one_more.alone[0] < 60


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_unit_of_the_weights_is_no_evidence(unit):
    y = np.zeros(6, int)
    answers = {"ridge": np.tile([0.0, 1.0], (6, 1)), "discriminant": np.tile([1.0, 0.0], (6, 1))}
    assert NOTHING.updated(answers, y, np.full(6, unit), 6, 2).choice == "ridge"  # six rows are too few
    more = np.tile(answers["ridge"], (2, 1)), np.tile(answers["discriminant"], (2, 1))
    found = NOTHING.updated(dict(zip(KINDS, more, strict=True)), np.zeros(12, int), np.full(12, unit), 12, 2)
    assert found.choice == "discriminant"


def test_copies_files_and_pickles_keep_the_choice(tmp_path):
    model = taught(*on_a_line(3, 400))
    rm.save(model, tmp_path / "m.safetensors")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), rm.load(tmp_path / "m.safetensors")):
        assert (other.readout, other.readout_) == ("auto", "discriminant")
        np.testing.assert_array_equal(other.predict(on_a_line(4, 100)[0]), model.predict(on_a_line(4, 100)[0]))


def test_unlearning_keeps_the_choice_and_merging_adds_the_evidence():
    X, y = on_a_line(5, 400)
    model = taught(X, y)
    before = model.assessment_
    model.unlearn(X[:100], y[:100])
    assert model.readout_ == "discriminant"
    np.testing.assert_allclose(model.assessment_.alone, 0.75 * before.alone)
    assert model.assessment_.discordant == pytest.approx(0.75 * before.discordant)
    few, many = taught(X[:6], y[:6]), taught(X[6:], y[6:])
    assert (few.readout_, many.readout_) == ("ridge", "discriminant")
    assert copy.deepcopy(few).merge(many).readout_ == copy.deepcopy(many).merge(few).readout_ == "discriminant"


def test_a_model_taught_with_another_readout_goes_on():
    X, y = on_a_line(6, 400)
    model = taught(X, y, readout="ridge").set_params(readout="auto")
    assert model.readout_ == "ridge"  # nothing was compared yet
    assert model.partial_fit(*on_a_line(7, 400)).readout_ == "discriminant"


@pytest.mark.parametrize(
    "settings", [{"method": rm.LMS()}, {"method": rm.RLS(forget=0)}, {"calibrate": False}, {"readout": "best"}]
)
def test_what_cannot_choose_is_refused(settings):
    model = rm.ContinualClassifier(**({"readout": "auto"} | settings))
    with pytest.raises(rm.InputError):
        model.fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(model, "classes_")


def test_the_command_learns_chooses_and_says_so(tmp_path):
    X, y = on_a_line(8, 600)
    for name, rows in (("a", slice(300)), ("b", slice(300, 600))):
        lines = [f"{a},{b},c{k}" for (a, b), k in zip(X[rows], y[rows], strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,kind", *lines, ""]))
    model, run = str(tmp_path / "m.rem"), CliRunner().invoke
    data = [str(tmp_path / f"{name}.csv") for name in "ab"]
    first = run(app, ["learn", model, *data, "--label", "kind", "--readout", "auto"])
    assert first.exit_code == 0, first.output
    assert json.loads(run(app, ["inspect", model, "--json"]).output)["readout"] == "discriminant"
    assert "discriminant" in run(app, ["inspect", model]).output
    answered = run(app, ["evaluate", model, data[0], "--json"])
    assert answered.exit_code == 0
    assert json.loads(answered.output)["accuracy"] > 0.85
    other = run(app, ["learn", model, data[0], "--readout", "ridge"])
    assert isinstance(other.exception, rm.InputError)
    assert "--readout" in message(other.exception)
    regression = run(app, ["learn", model + "2", data[0], "--target", "a", "--ignore", "kind", "--readout", "auto"])
    assert isinstance(regression.exception, rm.InputError)
