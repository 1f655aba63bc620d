"""The linear Gaussian model, what its filter and smoother return, and the filter as a streaming method."""

from typing import Any

import numpy as np

from remanence.store.record import Lengths, Outline, Parts, Record, like

KALMAN = "remanence.kalman"


def _drift_sound(parts: Parts, lengths: Lengths) -> str:
    if not parts["members"]:
        return "expected at least one filter, got none"
    d, drift = lengths["d"], parts["drift"]
    good = isinstance(drift, np.ndarray) and drift.dtype == np.float64 and drift.shape in ((), (d,), (d, d))
    return "" if good else f"expected a drift of {d} features"


def _member_outline(member: Any) -> Outline:
    return Outline(member.known.mean.shape, member.known.mean.dtype)


def _state_outline(state: Any) -> Outline:
    return _member_outline(state.members[0])


def _path_sound(parts: Parts, lengths: Lengths) -> str:
    """Means (…, T, d) and covariances (…, T, d, d) of one path, with a first axis for many series."""
    mean = parts["mean"]
    if not isinstance(mean, np.ndarray) or mean.ndim not in (2, 3) or mean.dtype != np.float64:
        return "expected means of shape (steps, features), or of many series"
    d = mean.shape[-1]
    shapes = {"cov": (*mean.shape, d), "predicted_mean": mean.shape, "predicted_cov": (*mean.shape, d)}
    shapes |= {"logliks": mean.shape[:-1], "gain": (*mean.shape[:-2], mean.shape[-2] - 1, d, d)}
    for name, shape in shapes.items():
        found = parts.get(name)
        if name in parts and not (isinstance(found, np.ndarray) and found.shape == shape and found.dtype == np.float64):
            return f"expected {name} of shape {shape}, got {getattr(found, 'shape', type(found).__name__)}"
    return ""


def _filtered_sound(parts: Parts, lengths: Lengths) -> str:
    from remanence.kalman import LinearGaussian

    wrong = _path_sound(parts, lengths)
    if wrong:
        return wrong
    mean, groups, gains, expected = (parts[name] for name in ("mean", "groups", "gains", "expected"))
    if not isinstance(parts["model"], LinearGaussian) or parts["model"].features != mean.shape[-1]:
        return f"expected the model of {mean.shape[-1]} features that was filtered"
    if type(groups) is not list or not all(isinstance(g, np.ndarray) and g.dtype.kind == "i" for g in groups):
        return "expected the groups of series that share their covariances"
    series = len(mean) if mean.ndim == 3 else 1
    if sorted(i for g in groups for i in g.ravel().tolist()) != list(range(series)):
        return f"expected groups of {series} series"
    if gains is not None and not (type(gains) is list and len(gains) == len(groups) and all(map(_is_gains, gains))):
        return f"expected the gains of {len(groups)} groups"
    if expected is not None and not (isinstance(expected, np.ndarray) and expected.shape[:1] == mean.shape[-2:-1]):
        return "expected the answers that were foretold, one row a step"
    return ""


def _is_gains(value: Any) -> bool:
    from remanence.kalman.gains import Gains

    return isinstance(value, Gains)


PATH = {"mean": "anything", "cov": "anything"}

KALMAN_RECORDS = {
    "Kalman": Record(
        f"{KALMAN}.streaming", {"drift": "anything", "noise": "anything", "ridge": "anything", "lag": "anything"}
    ),
    "KalmanState": Record(
        f"{KALMAN}.streaming",
        {"members": "each d c", "drift": "anything", "tasks": "count", "rows": "count"},
        _state_outline,
        sound=_drift_sound,
    ),
    "Member": Record(
        f"{KALMAN}.streaming",
        {"known": "d c", "past": "each d c", "forget": "number", "logdet": "number", "squares": "c float64"},
        _member_outline,
    ),
    "Gaussian": Record("remanence.memory.gaussian", {"mean": "d c float64", "cov": "d d float64"}, like("mean")),
    "LinearGaussian": Record(
        f"{KALMAN}.model", dict.fromkeys(("A", "Q", "X", "R", "mean", "cov"), "anything"), alone=True
    ),
    "Filtered": Record(
        f"{KALMAN}.results",
        {**PATH}
        | dict.fromkeys(
            ("predicted_mean", "predicted_cov", "logliks", "groups", "model", "expected", "gains"), "anything"
        ),
        sound=_filtered_sound,
        alone=True,
    ),
    "Smoothed": Record(f"{KALMAN}.results", PATH | {"gain": "anything"}, sound=_path_sound, alone=True),
    "Forecast": Record(f"{KALMAN}.results", PATH, sound=_path_sound, alone=True),
    "Gains": Record(
        f"{KALMAN}.gains",
        {
            "predicted": "t d d",
            "filtered": "t d d",
            "G": "t m d",
            "W": "t m m",
            "logdet": "t",
            "kinds": "t m any",
            "slack": "t m",
            "settled": "count",
        },
    ),
}
