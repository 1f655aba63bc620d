"""The card of drifting tasks runs from end to end on a tiny size, and its errors are those of the tasks it names."""

import numpy as np

import remanence as rm
from experiments import drifting_tasks as drifting


def test_drifting_tasks_card(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drifting, "QUICK", drifting.Size(5, 25, 4, 2, 1))
    monkeypatch.setattr(drifting, "RIDGES", (1.0,))
    monkeypatch.setattr(drifting, "DRIFTS", (0.1,))
    monkeypatch.setattr(drifting, "FADING", (1.0, 0.5))
    card = drifting.make(True, tmp_path)
    statistical = [claim for claim in card.claims if claim.text.startswith("A") and not claim.holds]
    assert not statistical, statistical
    assert len(card.tables) == 5 and len(card.claims) == 10
    card.write(tmp_path, "command", 1.0)
    assert (tmp_path / "runs/cards/drifting_tasks.svg").stat().st_size > 1000


def test_errors_are_asked_of_the_right_model_and_task():
    stream = drifting.linear(4, 0)
    models = drifting.learned(rm.RLS(), stream)
    own, last = (drifting.errors(how(models), stream, drifting.squared) for how in (drifting.kept, drifting.last))
    assert own[1, 3] == drifting.squared(models[1], stream[1]) and last[1, 3] == drifting.squared(models[3], stream[1])
    assert np.isnan(own[3, 1]) and drifting.newest(own) == drifting.newest(last)


def test_the_streaming_smoother_and_the_room_agree():
    stream = drifting.linear(5, 1)
    paths, _ = drifting.filtered_and_smoothed(stream, np.eye(drifting.FEATURES))
    method = rm.Kalman(drift=drifting.DRIFT, noise=drifting.NOISE, lag=5)
    for ours, streamed in zip(paths, drifting.smoothed(method, stream), strict=True):
        np.testing.assert_allclose(ours, streamed, atol=1e-10)


def test_no_digit_is_used_for_choosing_and_measuring():
    size = drifting.Size(3, 1, 1, 1, 1)
    first, second = (drifting.turning_digits(size, 0, validation)[0] for validation in (True, False))
    rows = lambda task: {row.tobytes() for row in np.concatenate([task.X, task.X_test])}
    assert not rows(first) & rows(second) and len(first.X) == drifting.TASK_ROWS
