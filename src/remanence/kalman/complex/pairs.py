"""A complex linear Gaussian model as a real one, and real results as complex ones.

    θ, v, w circular: E[θθᴴ] = Σ, E[θθᵀ] = 0     the real vector of (Re, Im) has half the real form of Σ        (X1)

A, X and B become their real forms (P2 of methods/signals/real_pairs.py), covariances half of theirs. Means and gains
are then those of the complex filter, and the log-likelihood is that of complex Gaussians, −log det πS − eᴴS⁻¹e.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.methods.signals.real_pairs import complex_entries, complex_matrix, real_entries, real_matrix

if TYPE_CHECKING:
    from remanence.kalman.model import LinearGaussian
    from remanence.kalman.results import Filtered

NAMES = ("A", "Q", "X", "R", "mean", "cov", "B", "u")


def any_complex(values: list[Any]) -> bool:
    """Whether one of these arrays, or lists of arrays, is complex."""
    return any(_is_complex(value) for value in values if value is not None)


def _is_complex(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind == "c"
    except (RuntimeError, TypeError, ValueError):  # a list of unequal arrays, or no array
        return isinstance(value, (list, tuple)) and any_complex(list(value))


def as_complex(value: Any) -> Any:
    """Arrays in complex128, also those of a list of unequal ones."""
    if value is None or np.ma.is_masked(value):
        return value  # (what is masked is refused where its real part is checked)
    if isinstance(value, (list, tuple)) and len({np.shape(v) for v in value}) > 1:
        return tuple(map(as_complex, value))
    try:
        return np.array(value, np.complex128)
    except (TypeError, ValueError):
        return value  # (refused where its real part is checked)


def changed(value: Any, change: Any) -> Any:
    """`change` of an array, or of each of several."""
    return type(value)(change(v) for v in value) if isinstance(value, (list, tuple)) else change(value)


def real_model(kind: type["LinearGaussian"], values: dict[str, Any]) -> "LinearGaussian":
    """The real model of complex parts (X1); raises InputError where their shapes do not fit."""
    parts = {name: np.real if name not in ("Q", "R", "cov") else _nothing for name in NAMES}
    kind(*(None if values[n] is None else changed(values[n], parts[n]) for n in NAMES))  # errors name the given sizes
    for name, value in values.items():
        for part in value if isinstance(value, tuple) else (value,):
            if part is not None and not np.isfinite(part).all():
                raise InputError(f"expected finite numbers in {name}, got NaN or infinity; a model must be known")

    def half(P: Array) -> Array:
        return real_matrix(P) / 2

    def forms(name: str) -> Any:
        if values[name] is None:
            return None
        form = real_entries if name in ("mean", "u") else half if name in ("Q", "R", "cov") else real_matrix
        return changed(values[name], form)

    return kind(*map(forms, NAMES))


def _nothing(value: Any) -> Any:
    """A covariance of this shape, to check the others beside it."""
    return np.real(value) if np.ma.is_masked(value) else np.zeros(np.shape(value))


def real_observations(Y: Any) -> Any:
    """Observations as pairs of real ones; an entry whose real or imaginary part is NaN is missing."""
    if isinstance(Y, (list, tuple)) and len({np.shape(y) for y in Y}) > 1:
        return [real_observations(y) for y in Y]
    try:
        values = np.ma.filled(np.ma.asarray(Y, np.complex128), np.nan) if np.ma.isMaskedArray(Y) else np.asarray(Y)
        values = values.astype(np.complex128)
    except (TypeError, ValueError):
        raise InputError(f"expected Y to hold complex numbers, got {type(Y).__name__}") from None
    if not values.ndim:
        raise InputError("expected Y of shape (steps, rows), got a number; pass at least one observation")
    return real_entries(np.where(np.isnan(values), complex(np.nan, np.nan), values))


def complex_states(means: Array, covs: Array) -> tuple[Array, Array]:
    """Means and covariances of complex numbers."""
    return complex_entries(means), 2 * complex_matrix(covs)


def complex_filtered(found: "Filtered", model: "LinearGaussian") -> "Filtered":
    """The result of the real filter as one of the complex model, which keeps the real one for the smoother."""
    mean, cov = complex_states(found.mean, found.cov)
    predicted, spread = complex_states(found.predicted_mean, found.predicted_cov)
    parts: dict[str, Any] = {"mean": mean, "cov": cov, "predicted_mean": predicted, "predicted_cov": spread}
    return replace(found, **parts, model=model, gains=None, whitened=None, pairs=found)


def pairs_of(filtered: "Filtered") -> "Filtered":
    """The real result behind a complex one."""
    if filtered.pairs is None:
        raise InputError("expected the result of a complex model, got one of a real model; pass its own model")
    return filtered.pairs


def refuse_complex(model: "LinearGaussian", who: str) -> None:
    if model.pairs is not None:
        raise InputError(f"{who} is for real numbers, got complex ones; pass real and imaginary parts as two unknowns")
