"""The value of a function and its Jacobian: given, by torch.func, by a complex step, or by central differences.

    ∂f/∂θ_k = Im f(θ + i h e_k) / h,  h = 1e−100                exact to rounding where f is analytic        (J1)
    ∂f/∂θ_k ≈ (f(θ + h_k e_k) − f(θ − h_k e_k)) / 2h_k                        about ten digits               (J2)
    h_k = min(ε^⅓(1 + |θ_k|), max(ε^⅓|θ_k|, σ_k / 10⁴))    where the deviation σ_k of θ_k is known          (J3)

(J3) follows the units of θ: where it is given in millionths, a step of ε^⅓ is larger than all of it. Where so small a
step meets the rounding of f, and a step of ε^⅓(1 + |θ_k|) gives the same but for that, the latter counts.

A complex step through |·|, max or a cast to float goes wrong without a word, so (J1) must agree with a difference along
one direction before it is believed. torch is never imported here: a torch function comes with its torch.
"""

import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.validation import check_numbers

Function = Callable[[Any], Any]
Minus = Callable[[Array, Array], Array]
EPS = float(np.finfo(float).eps)
STEP = EPS ** (1 / 3)
ROUNDINGS = 8  # that a value of f may be off by


def linearized_at(
    function: Function,
    jacobian: Function | None,
    theta: Array,
    name: str,
    minus: Minus = np.subtract,
    cov: Array | None = None,
) -> tuple[Array, Array]:
    """f(θ) (m,) and ∂f/∂θ (m, d); `minus` is how two values of f are compared (angles differ by less than π).

    `cov` is the covariance of θ, where it is known.
    """
    value, native = _evaluated(function, theta, name)
    if not native:
        slope = _by_torch(function, jacobian, theta)
    elif jacobian is not None:
        slope = jacobian(theta.copy())
    else:
        slope = _slope(function, theta, value, minus, cov)
    slope = check_numbers(slope, f"the Jacobian of {name}", np.float64)
    if slope.ndim == 1 and len(value) == 1:
        slope = slope[None]
    if slope.shape != (len(value), len(theta)) or not np.isfinite(slope).all():
        raise InputError(
            f"expected the Jacobian of {name} to be finite and of shape ({len(value)}, {len(theta)}), got shape "
            f"{slope.shape}; row i holds the derivatives of entry i"
        )
    return value, slope


def value_at(function: Function, theta: Array, name: str) -> Array:
    """f(θ) (m,), of a torch function too."""
    return _evaluated(function, theta, name)[0]


def check_value(value: Any, name: str) -> Array:
    """A number or a vector as a finite vector."""
    array = np.atleast_1d(check_numbers(value, f"what {name} returns", np.float64))
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"expected {name} to return a finite vector, got {array.shape}: {array}; check it near θ")
    return array


def _evaluated(function: Function, theta: Array, name: str) -> tuple[Array, bool]:
    """f(θ), and whether f is a function of arrays and not of tensors."""
    torch = sys.modules.get("torch")
    if torch is None:
        return check_value(function(theta.copy()), name), True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch does not like to meet an array
            value = function(theta.copy())
        if not isinstance(value, torch.Tensor):
            return check_value(value, name), True
    except (TypeError, AttributeError, RuntimeError):
        pass
    found = torch.atleast_1d(function(torch.tensor(theta, dtype=torch.float64)))
    return check_value(found.detach().numpy(), name), False


def _by_torch(function: Function, jacobian: Function | None, theta: Array) -> Any:
    torch = sys.modules["torch"]
    derive = jacobian if jacobian is not None else torch.func.jacrev(lambda t: torch.atleast_1d(function(t)))
    slope = derive(torch.tensor(theta, dtype=torch.float64))
    return slope.detach().numpy() if isinstance(slope, torch.Tensor) else slope


def _slope(function: Function, theta: Array, value: Array, minus: Minus, cov: Array | None) -> Array:
    usual = STEP * (1 + np.abs(theta))
    own = usual
    if cov is not None:
        own = np.maximum(STEP * np.abs(theta), np.sqrt(np.maximum(np.diag(cov), 0)) / 10_000)
        own = np.where(own > 0, np.minimum(own, usual), usual)  # (J3)
    slope = _complex_step(function, theta, len(value))
    if slope is not None and any(_agrees(slope, function, theta, minus, steps) for steps in (own, usual)):
        return slope
    columns = []
    for k in range(len(theta)):
        column = _difference(function, theta, k, own[k], minus)
        rounding = ROUNDINGS * EPS * np.abs(value) / own[k]
        if own[k] < usual[k] and rounding.max(initial=0.0) > 1e-7 * np.abs(column).max(initial=0.0):
            wide = _difference(function, theta, k, usual[k], minus)
            column = np.where(np.abs(wide - column) <= rounding, wide, column)
        columns.append(column)
    return np.stack(columns, axis=1)


def _agrees(slope: Array, function: Function, theta: Array, minus: Minus, steps: Array) -> bool:
    """Whether a Jacobian is that of a difference along one direction."""
    v = _along(len(theta)) * steps
    ahead, behind = _sides(function, theta, v)
    allowed = 1e-4 * float((np.abs(slope) @ v).sum())
    return bool(np.allclose(slope @ v, minus(ahead, behind) / 2, rtol=1e-4, atol=allowed))


def _difference(function: Function, theta: Array, k: int, step: float, minus: Minus) -> Array:
    """∂f/∂θ_k (J2)."""
    h = np.zeros(len(theta))
    h[k] = step
    ahead, behind = _sides(function, theta, h)
    return np.asarray(minus(ahead, behind) / ((theta + h)[k] - (theta - h)[k]))


def _sides(function: Function, theta: Array, h: Array) -> list[Array]:
    """f(θ + h) and f(θ − h)."""
    return [np.atleast_1d(np.asarray(function(theta + s * h), dtype=np.float64)) for s in (1, -1)]


@cache
def _along(d: int) -> Array:
    """A direction with no zero entry."""
    return np.asarray(0.3 + 0.7 * np.modf(np.arange(1, d + 1) * 0.6180339887498949)[0])


def _complex_step(function: Function, theta: Array, m: int) -> Array | None:
    h = 1e-100
    columns = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for k in range(len(theta)):
                point = theta.astype(np.complex128)
                point[k] += 1j * h
                columns.append(np.atleast_1d(np.asarray(function(point), dtype=np.complex128)).imag / h)  # (J1)
    except Exception:  # whatever a function of real numbers does when it meets a complex one
        return None
    slope = np.stack(columns, axis=1)
    return slope if slope.shape[0] == m and np.isfinite(slope).all() else None
