"""Known inputs: the filter of a model with inputs is that of a model with one more unknown, which is known to be 1.

    θ' = [θ; 1]     A' = [A  Bu; 0  1]     Q', cov' = those of θ, and 0     X' = [X  0]                          (U1)

So no path of inputs is subtracted from the observations, which would lose digits where inputs hold an unstable system.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.validation import check_finite, check_numbers

if TYPE_CHECKING:
    from remanence.kalman.model import LinearGaussian
    from remanence.kalman.results import Filtered


def check_inputs(B: Any, u: Any, d: int) -> tuple[Any, Any, Array | None]:
    """B and u as arrays, and their products (1 or T, d); None without inputs."""
    if B is None and u is None:
        return None, None, None
    if B is None or u is None:
        raise InputError(f"expected B and u together, θ_t = A θ + B u_t, got {'u' if B is None else 'B'} alone")
    parts = []
    for value, name in ((B, "B"), (u, "u")):
        array = np.array(check_numbers(value, name, np.float64), order="C")
        check_finite(array, name)
        parts.append(array)
    B, u = parts
    if B.ndim not in (2, 3) or B.shape[-2] != d:
        raise InputError(f"expected B of shape ({d}, inputs), constant or one per step, got {B.shape}")
    k = B.shape[-1]
    if u.ndim not in (1, 2) or u.shape[-1] != k:
        raise InputError(
            f"expected u of shape ({k},), or (T, {k}) for inputs per step, got {u.shape}; B has {k} columns"
        )
    if B.ndim == 3 and u.ndim == 2 and len(B) != len(u):
        raise InputError(f"expected B and u of one length, got {len(B)} and {len(u)} steps")
    products = (B if B.ndim == 3 else B[None]) @ (u if u.ndim == 2 else u[None])[:, :, None]
    return B, u, np.ascontiguousarray(products[:, :, 0])


def with_known_one(model: "LinearGaussian", T: int) -> "LinearGaussian":
    """The model of [θ; 1], which has no inputs (U1)."""
    assert model.pushes is not None
    d, s = model.features, model.steps
    A, Q = np.zeros((T, d + 1, d + 1)), np.zeros((len(s.Q), d + 1, d + 1))
    A[:, :d, :d], A[:, :d, d], A[:, d, d] = s.A, model.pushes, 1
    Q[:, :d, :d] = s.Q
    cov = np.zeros((d + 1, d + 1))
    cov[:d, :d] = model.cov

    def wide(X: Any) -> Any:
        return tuple(map(wide, X)) if isinstance(X, tuple) else np.pad(X, [(0, 0)] * (X.ndim - 1) + [(0, 1)])

    Q = Q if model.Q.ndim == 3 else Q[0]
    return type(model)(A, Q, wide(model.X), model.R, np.append(model.mean, 1.0), cov)


def without_known_one(found: "Filtered", model: "LinearGaussian") -> "Filtered":
    """The result of filtering `with_known_one(model)`, as one of the model itself."""
    d = model.features
    parts: dict[str, Any] = {
        name: np.ascontiguousarray(getattr(found, name)[..., :d]) for name in ("mean", "predicted_mean")
    }
    parts |= {name: np.ascontiguousarray(getattr(found, name)[..., :d, :d]) for name in ("cov", "predicted_cov")}
    return replace(found, **parts, model=model, gains=None, whitened=None)
