"""A run is a value: it says its figures, and saving and loading changes nothing."""

import json
from importlib import import_module

import numpy as np
import pytest

import remanence as rm
from remanence.errors import FileError, InputError
from remanence.evaluation import ErrorMatrix
from remanence.report import Contender, Outcome, Run, compare


def test_the_headline_names_the_best_learner_beside_the_best_reference_and_the_floor(run):
    assert run.headline == (
        "RLS keeps 90.0 % after 2 tasks, 5.0 points below ridge retrained (95.0 %); fine-tuning keeps 50.0 %."
    )


def test_the_headline_makes_do_with_what_there_is(run, outcome):
    floor, rls, _, joint = run.outcomes
    assert Run((rls,)).headline == "RLS keeps 90.0 % after 2 tasks."
    assert Run((floor,)).headline == "Fine-tuning keeps 50.0 % after 2 tasks."
    assert Run((joint, floor)).headline == "Ridge retrained keeps 95.0 % after 2 tasks; fine-tuning keeps 50.0 %."
    better = outcome("x", "Luck", [0.0, 0.0])
    assert "5.0 points above ridge retrained (95.0 %)" in Run((better, joint)).headline
    logistic = outcome("logistic", "Logistic retrained", [0.0, 0.04], "reference")
    assert "8.0 points below the better reference, logistic retrained (98.0 %)" in Run((rls, joint, logistic)).headline
    assert "level with logistic retrained" in Run((outcome("x", "X", [0.04, 0.0]), logistic)).headline
    assert "after 1 task." in Run((outcome("x", "X", [0.0], tasks=1),)).headline


def test_metrics_by_hand(run):
    assert run.outcomes[2].metrics == pytest.approx(
        {
            "average_accuracy": 0.5,
            "forgetting": 0.9,
            "backward_transfer": -0.9,
            "forward_transfer": 0.0,
            "seconds": 1.0,
            "memory": 2048,
        }
    )
    assert run.outcomes[2].curve == pytest.approx([1.0, 0.5])


def test_saving_and_loading_changes_nothing(run, tmp_path):
    run.save(tmp_path / "results.json")
    again = Run.load(tmp_path / "results.json")
    assert again.to_dict() == run.to_dict()
    for a, b in zip(again.outcomes, run.outcomes, strict=True):
        np.testing.assert_array_equal(a.matrix.values, b.matrix.values)
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_saving_replaces_and_a_failure_keeps_the_old_file(run, tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        with pytest.raises(FileError, match="No space left"):
            run.save(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
    run.save(path)
    assert json.loads(path.read_text())["schema"] == 2


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"schema": 99}', '{"schema": 1, "learners": [{}]}'])
def test_what_is_not_a_run_is_refused(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(FileError, match=r"results\.json"):
        Run.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match="nowhere"):
        Run.load(tmp_path / "nowhere.json")


def test_what_cannot_be_told_together_is_refused(run, outcome):
    with pytest.raises(InputError, match="at least one"):
        Run(())
    with pytest.raises(InputError, match="same tasks"):
        Run((run.outcomes[0], outcome("x", "X", [0.0], tasks=1)))
    with pytest.raises(InputError, match="zero_one"):
        Outcome("x", "X", (ErrorMatrix(np.ones((1, 2)), loss="squared"),))
    with pytest.raises(InputError, match="role"):
        Outcome("x", "X", run.outcomes[0].matrices, "judge")
    with pytest.raises(InputError, match="at least one"):
        Outcome("x", "X", ())
    with pytest.raises(InputError, match="as many tasks"):
        Outcome("x", "X", (run.outcomes[0].matrix, outcome("x", "X", [0.0], tasks=1).matrix))


def test_comparing_is_evaluating_each():
    stream = rm.streams.digits(5)[:2]
    learner = rm.ContinualClassifier(rm.RLS())
    run = compare([Contender("a", "A", learner), Contender("b", "B", learner)], stream, {"seed": 0})
    direct = rm.evaluate(learner, stream)
    for o in run.outcomes:
        np.testing.assert_allclose(o.matrix.values, direct.values, atol=1 / 80)
    assert run.tasks == ("0, 1", "2, 3")
    assert run.versions["remanence"] and not hasattr(learner, "classes_")


def test_several_seeds_are_a_mean_and_a_spread(seeded):
    rls = seeded.outcomes[0]
    assert rls.metrics["average_accuracy"] == pytest.approx(0.85) and rls.spread["average_accuracy"] == pytest.approx(
        np.std([0.9, 0.8], ddof=1)
    )
    np.testing.assert_allclose(rls.matrix.values[:, -1], [0.2, 0.1])
    np.testing.assert_allclose(rls.curves, [[1.0, 0.9], [1.0, 0.8]])
    assert seeded.seeds == 2 and "(mean of 2 seeds)" in seeded.headline
    assert Run.from_dict(json.loads(json.dumps(seeded.to_dict()))).to_dict() == seeded.to_dict()


def test_tasks_that_differ_between_seeds_are_numbered(seeded):
    first, second = seeded.outcomes[0].matrices
    other = ErrorMatrix(second.values, ("b", "a"), "zero_one", second.seconds)
    assert Outcome("x", "X", (first, other)).matrix.names == ("task 1", "task 2")


def test_a_run_of_the_first_schema_is_still_read(run):
    old = run.to_dict() | {"schema": 1}
    del old["relations"]
    for learner in old["learners"]:
        learner["role"] = learner["role"].replace("reference", "ceiling")
        for later in ("matrices", "certificates", "spread"):
            del learner[later]
        del learner["matrix"]["memory"]
    again = Run.from_dict(old)
    assert again.headline == run.headline and again.outcomes[0].matrices[0].names == run.tasks
    assert again.to_dict()["learners"][0]["metrics"]["memory"] is None


def test_comparing_certifies_when_asked():
    stream = rm.streams.digits(5)[:2]
    run = compare([Contender("rls", "RLS", rm.ContinualClassifier(rm.RLS()))], stream, certified=True)
    direct = rm.certify(rm.ContinualClassifier(rm.RLS()), stream)
    assert [c.status for c in run.outcomes[0].certificates] == [c.status for c in direct]
    assert run.outcomes[0].certificates[0].holds and run.relations == ()  # nothing relates RLS to itself


def test_a_large_stream_is_certified_only_if_asked(monkeypatch):
    monkeypatch.setattr(import_module("remanence.report.compare"), "CERTIFIED", 1000)
    contenders, stream = [Contender("rls", "RLS", rm.ContinualClassifier(rm.RLS()))], rm.streams.digits(5)[:2]
    run = compare(contenders, stream, certified=None)
    assert not run.outcomes[0].certificates and "certified=True" in run.notes[-1]
    assert compare(contenders, stream[:1], certified=True).outcomes[0].certificates
    assert compare(contenders, stream, certified=False).relations == ()
