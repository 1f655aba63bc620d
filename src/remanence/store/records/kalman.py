"""Records of the linear Gaussian model, the results of its filter and smoother, and the state of rm.Kalman."""

from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.store.format.arrays import REPEATS, finite
from remanence.store.format.record import Lengths, PartValues, Record, fields_of

KALMAN = "remanence.kalman"
KINDS = 2  # of entries: MISSING is 0, then SEEN and DECIDED


def _drift_check(parts: PartValues, lengths: Lengths) -> str:
    if not parts["members"]:
        return "expected at least one filter, got none"
    d, drift = lengths["d"], parts["drift"]
    good = isinstance(drift, np.ndarray) and drift.dtype == np.float64 and drift.shape in ((), (d,), (d, d))
    return "" if good and np.isfinite(drift).all() else f"expected a drift of {d} features"


def _member_check(parts: PartValues, lengths: Lengths) -> str:
    return "" if 0 < parts["forget"] <= 1 else f"expected forgetting above 0 and at most 1, got {parts['forget']!r:.40}"


def _gaussian_check(parts: PartValues, lengths: Lengths) -> str:
    """Rounding may leave a covariance a little below 0 in some direction; no variance is."""
    return "" if not len(parts["cov"]) or parts["cov"].diagonal().min() >= 0 else "expected variances of at least 0"


def _path_check(parts: PartValues, lengths: Lengths) -> str:
    """Means (…, T, d) and covariances (…, T, d, d) of one path, with a first axis for many series."""
    mean = parts["mean"]
    if not isinstance(mean, np.ndarray) or mean.ndim not in (2, 3) or mean.dtype != np.float64:
        return "expected means of shape (steps, features), or of many series"
    d = mean.shape[-1]
    steps = mean.shape[-2]
    if "logliks" in parts and isinstance(parts["cov"], np.ndarray) and parts["cov"].shape[-3:] == (1, d, d):
        steps = 1  # of a filter that kept only the last covariances
    shape = (*mean.shape[:-2], steps, d, d)
    shapes = {"cov": shape, "predicted_mean": mean.shape, "predicted_cov": shape}
    shapes |= {"logliks": mean.shape[:-1], "gain": (*mean.shape[:-2], mean.shape[-2] - 1, d, d)}
    for name, shape in shapes.items():
        found = parts.get(name)
        if name in parts and not (isinstance(found, np.ndarray) and found.shape == shape and found.dtype == np.float64):
            return f"expected {name} of shape {shape}, got {getattr(found, 'shape', type(found).__name__)}"
        if found is not None and not finite(found):
            return f"expected finite numbers in {name}, got NaN or infinity"
    return "" if finite(mean) else "expected finite means, got NaN or infinity"


def _filtered_check(parts: PartValues, lengths: Lengths) -> str:
    from remanence.kalman import LinearGaussian

    wrong = _path_check(parts, lengths)
    if wrong:
        return wrong
    mean, model, groups, gains = (parts[name] for name in ("mean", "model", "groups", "gains"))
    steps, d = mean.shape[-2:]
    if not isinstance(model, LinearGaussian) or model.features != d or model.length not in (None, steps):
        return f"expected the model of {steps} steps and {d} features that was filtered"
    if type(groups) is not list or not all(map(_is_group, groups)):
        return "expected the groups of series that share their covariances"
    series = len(mean) if mean.ndim == 3 else 1
    if sum(g.size for g in groups) != series or sorted(i for g in groups for i in g.ravel().tolist()) != [
        *range(series)
    ]:
        return f"expected groups of {series} series"
    rows = int(model.steps.rows.max())
    if gains is not None and not (
        type(gains) is list and len(gains) == len(groups) and all(_are_gains(g, steps, rows, d) for g in gains)
    ):
        return f"expected the gains of {len(groups)} groups over {steps} steps"
    w = parts.get("whitened")
    if w is not None and (not gains or series != 1 or not _are_numbers(w, gains[0].kinds.shape)):
        return f"expected whitened innovations of one series, {steps} steps of the gains' rows"
    return _expected_check(parts["expected"], steps)


def _filtered_to_parts(filtered: Any) -> dict[str, Any]:
    """The whitened innovations are stored where there are any, so that other files stay as they were."""
    if filtered.pairs is not None:
        raise InputError(
            "expected the result of a filter of real numbers, to store it, got one of complex numbers; store the model "
            "and filter again"
        )
    parts = {name: part for name, part in fields_of(filtered).items() if name != "pairs"}
    return {name: part for name, part in parts.items() if name != "whitened" or part is not None}


def _model_to_parts(model: Any) -> dict[str, Any]:
    """Inputs are stored where there are any, so that other files stay as they were."""
    return {name: part for name, part in fields_of(model).items() if name not in ("B", "u") or part is not None}


def _are_numbers(value: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape and finite(value)


def _is_group(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.ndim == 1 and bool(value.size)


def _expected_check(expected: Any, steps: int) -> str:
    if expected is None:
        return ""
    good = isinstance(expected, np.ndarray) and expected.ndim == 2 and len(expected) == steps
    good = good and expected.dtype == np.float64 and finite(expected)
    return "" if good else "expected the predicted observations, one row per step"


def _are_gains(value: Any, steps: int, rows: int, d: int) -> bool:
    from remanence.kalman.gains import Gains

    if not isinstance(value, Gains):
        return False
    return value.G.shape == (steps, rows if value.X is None else d, d)


def _gains_to_parts(gains: Any) -> dict[str, Any]:
    """The compressed rows are stored where there are any, so that other files stay as they were."""
    return {name: part for name, part in fields_of(gains).items() if name != "X" or part is not None}


def _gains_check(parts: PartValues, lengths: Lengths) -> str:
    kinds = parts["kinds"]
    if kinds.dtype.kind != "i" or kinds.min(initial=0) < 0 or kinds.max(initial=0) > KINDS:
        return "expected entries that are missing, seen or decided"
    X = parts.get("X")
    if X is not None and (len(X) not in (1, lengths["t"]) or X.shape[1:] != parts["G"].shape[1:]):
        return f"expected compressed rows of {lengths['t']} steps, or the same for all, got shape {X.shape}"
    if parts["settled"] > lengths["t"]:
        return f"expected at most {lengths['t']} steps before the gains settle, got {parts['settled']}"
    return ""


def _model_check(parts: PartValues, lengths: Lengths) -> str:
    """Steps of unequal size are filled up to the largest: of how many numbers that makes, enough must be there."""
    for name in ("X", "R"):
        steps = parts[name]
        if type(steps) is tuple and steps and all(isinstance(v, np.ndarray) for v in steps):
            full = len(steps) * max(v.size for v in steps)
            if full > REPEATS * sum(v.size + 1 for v in steps):
                return f"expected steps of similar size in {name}, got some that are far larger than most"
    return ""


PATH = {"mean": "setting", "cov": "setting"}

KALMAN_RECORDS = {
    "KalmanState": Record(
        f"{KALMAN}.streaming",
        {"members": "tuple Member d c", "drift": "setting", "tasks": "count", "rows": "count"},
        check=_drift_check,
    ),
    "Member": Record(
        f"{KALMAN}.streaming",
        {
            "known": "Gaussian d c",
            "past": "tuple Gaussian d c",
            "forget": "number",
            "logdet": "number",
            "squares": "c float64",
        },
        check=_member_check,
    ),
    "Gaussian": Record(
        "remanence.memory.gaussian",
        {"mean": "d c float64", "cov": "d d float64"},
        check=_gaussian_check,
    ),
    "LinearGaussian": Record(
        f"{KALMAN}.model",
        dict.fromkeys(("A", "Q", "X", "R", "mean", "cov"), "setting"),
        to_parts=_model_to_parts,
        optional={"B": "setting", "u": "setting"},
        check=_model_check,
        is_root=True,
    ),
    "Filtered": Record(
        f"{KALMAN}.results",
        {**PATH}
        | dict.fromkeys(
            ("predicted_mean", "predicted_cov", "logliks", "groups", "model", "expected", "gains"), "setting"
        ),
        to_parts=_filtered_to_parts,
        optional={"whitened": "setting"},
        check=_filtered_check,
        is_root=True,
    ),
    "Smoothed": Record(f"{KALMAN}.results", PATH | {"gain": "setting"}, check=_path_check, is_root=True),
    "Forecast": Record(f"{KALMAN}.results", PATH, check=_path_check, is_root=True),
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
        to_parts=_gains_to_parts,
        optional={"X": "* * d"},
        check=_gains_check,
    ),
}
