"""Check observations Y: (T, m), a list of one array per step, or (N, T, m) for N series; NaN or masked is missing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.model import LinearGaussian
from remanence.validation import LARGEST, check_numbers


@dataclass(frozen=True, slots=True)
class Observations:
    """Y padded with NaN, and its series grouped by their missing entries."""

    Y: Array  # (N, T, m)
    many: bool  # Y has a leading axis N, and so have the results
    groups: list[Array]  # the series that miss the same entries

    def present(self, group: Array) -> Array:
        """(T, m): which entries the series of a group have."""
        return np.asarray(~np.isnan(self.Y[group[0]]))


def check_observations(model: LinearGaussian, Y: Any) -> Observations:
    """Y as observations of this model; raises InputError if the shapes do not match."""
    rows = model.steps.rows
    array = _filled(Y, rows)
    if array.ndim not in (2, 3):
        raise InputError(
            f"expected Y of shape (steps, rows) or (series, steps, rows), got {array.shape}; "
            f"for one observation per step pass y[:, None]"
        )
    many = array.ndim == 3
    array = array if many else array[None]
    N, T, m = array.shape
    if not T or not N:
        raise InputError(f"expected at least one step, got Y of shape {np.shape(Y)}; pass at least one observation")
    if model.length not in (None, T):
        raise InputError(
            f"expected Y of {model.length} steps, as many as the model has, got {T}; "
            f"shorten the model, or pad Y with NaN for steps without observations"
        )
    if m != model.steps.X.shape[1]:
        raise InputError(f"expected Y of {model.steps.X.shape[1]} entries per step, as many as X has rows, got {m}")
    largest = float(np.abs(array).max(initial=0.0, where=~np.isnan(array)))
    if largest > LARGEST[np.dtype(np.float64)]:
        raise InputError(
            f"expected Y within ±1e150, got {largest:.1e}; mark missing entries with NaN, rescale the rest"
        )
    return Observations(array, many, _groups(array))


def _filled(Y: Any, rows: Array) -> Array:
    if len(set(rows.tolist())) == 1:
        if isinstance(Y, (list, tuple)) and len({np.shape(y) for y in Y}) > 1:
            raise InputError(
                f"expected Y to hold {rows[0]} real numbers per step, got {type(Y).__name__} of unequal rows; "
                f"X is the same at every step, so mark missing entries with NaN"
            )
        return np.require(check_numbers(unmasked(Y), "Y", np.float64), requirements=["C", "W"])
    if not isinstance(Y, (list, tuple)) or len(Y) != len(rows):
        raise InputError(
            f"expected Y to be a list of {len(rows)} arrays, as X is, got {type(Y).__name__} "
            f"of {len(Y) if np.ndim(Y) or isinstance(Y, (list, tuple)) else 1}; give every step its own observations"
        )
    full = np.full((len(rows), rows.max()), np.nan)
    for t, (y, m) in enumerate(zip(Y, rows, strict=True)):
        y = check_numbers(unmasked(y), f"Y[{t}]", np.float64)
        if y.shape != (m,):
            raise InputError(f"expected Y[{t}] of shape ({m},) to fit the rows of X[{t}], got {y.shape}")
        full[t, :m] = y
    return full


def unmasked(Y: Any) -> Any:
    """Y with NaN where a masked array hides an entry; lists of arrays too."""
    if isinstance(Y, (list, tuple)) and any(isinstance(y, np.ma.MaskedArray) for y in Y):
        return [unmasked(y) for y in Y]
    if not isinstance(Y, np.ma.MaskedArray):
        return Y
    if not np.ma.is_masked(Y):
        return Y.data
    return np.where(np.ma.getmaskarray(Y), np.nan, check_numbers(Y.data, "Y", np.float64))


def patterns(there: Array) -> list[tuple[Array, Array]]:
    """Which entries are there, and at which steps exactly these; steps without observations are left out."""
    if there.all():
        return [(there[0], np.arange(len(there)))] if there.size else []
    kinds, which = np.unique(there, axis=0, return_inverse=True)
    which = which.ravel()
    return [(seen, np.flatnonzero(which == k)) for k, seen in enumerate(kinds) if seen.any()]


def _groups(Y: Array) -> list[Array]:
    missing = np.isnan(Y)
    if len(Y) == 1 or not missing.any():
        return [np.arange(len(Y))]
    packed = np.packbits(missing.reshape(len(Y), -1), axis=1)
    _, which = np.unique(packed, axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(which, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
