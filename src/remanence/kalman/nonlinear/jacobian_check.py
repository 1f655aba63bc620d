"""A given Jacobian compared with central differences of its function, entry by entry.

    D(h) = (f(θ + h e_k) − f(θ − h e_k)) / 2h     at h = σ_k ε^⅓ · 4, 16, 64                            (C1)
    |J − D| ≤ the spread of D over h  +  8 ε |f| / h  +  ε^⅓ max_k(σ_k |D|) / σ_k                        (C2)

σ_k is the standard deviation of θ_k: a filter linearises over that range, so units do not matter. What the differences
miss by curvature or by rounding inside f shows in how they change with h; the second term is the rounding of f itself
(ε is that of single precision where f has no more digits), and the third lets Jacobians pass that were measured or
computed in single precision. At a kink any slope between those of the two sides is right.
"""

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.nonlinear.jacobians import ROUNDINGS, STEP, Function, Minus, value_at

STEPS = (4 * STEP, 16 * STEP, 64 * STEP)


def check_jacobian(
    function: Function, value: Array, slope: Array, theta: Array, cov: Array, name: str, minus: Minus, step: int
) -> None:
    """Refuse a Jacobian `slope` (m, d) that is not that of the function at θ, and name its worst entry."""
    usual = 1 + np.abs(theta)
    sigma = np.maximum(np.sqrt(np.maximum(np.diag(cov), 0)), STEP * usual)  # (d,)
    scale = np.minimum(sigma, usual)  # a prior that knows nothing is no range to measure over
    low, high, rounding = np.empty((3, *slope.shape))
    for k in range(len(theta)):
        low[:, k], high[:, k], rounding[:, k] = _measured(function, value, theta, k, scale[k], name, minus)
    middle = (low + high) / 2
    allowed = rounding + STEP * np.max(np.abs(middle) * sigma, axis=1, keepdims=True) / sigma  # (C2)
    excess = np.maximum(low - slope, slope - high) / np.maximum(allowed, np.finfo(float).tiny)
    if not (excess > 1).any():
        return
    i, k = map(int, np.unravel_index(np.argmax(excess), excess.shape))
    others = int((excess > 1).sum()) - 1
    more = f" ({others} more differ{'s' if others == 1 else ''})" if others else ""
    raise InputError(
        f"expected the Jacobian of {name} to hold its derivatives, but at step {step} the entry in row {i}, column {k} "
        f"is {slope[i, k]:.6g} and differences of {name} measure {middle[i, k]:.6g} ± "
        f"{allowed[i, k] + (high - low)[i, k] / 2:.1g}{more}; correct it, leave it out, or pass check=False"
    )


def _measured(
    function: Function, value: Array, theta: Array, k: int, scale: float, name: str, minus: Minus
) -> tuple[Array, Array, Array]:
    """The smallest and the largest slope (m,) along θ_k that was measured, and the rounding of the middle one (C1)."""
    slopes, sides = [], []
    single = _single(value)
    for h in STEPS:
        ahead, behind = theta.copy(), theta.copy()
        ahead[k] += h * scale
        behind[k] -= h * scale
        right, left = ahead[k] - theta[k], theta[k] - behind[k]
        up, down = value_at(function, ahead, name), value_at(function, behind, name)
        if not len(value) == len(up) == len(down):
            raise InputError(f"expected {name} to return as many numbers for every θ, got {len(up)} and {len(down)}")
        single = single and _single(up) and _single(down)
        slopes.append(minus(up, down) / (right + left))
        sides += [minus(up, value) / right, minus(value, down) / left]
    middle, spread = slopes[1], np.ptp(slopes, axis=0)
    eps = float(np.finfo(np.float32 if single else np.float64).eps)
    rounding = ROUNDINGS * eps * (np.abs(value) + np.abs(middle * theta[k])) / (STEPS[1] * scale)
    low = np.minimum(middle - spread, np.min(sides, axis=0))
    high = np.maximum(middle + spread, np.max(sides, axis=0))
    return low, high, rounding


def _single(values: Array) -> bool:
    """Whether these numbers have no more digits than single precision has."""
    with np.errstate(over="ignore"):
        return bool((values == values.astype(np.float32)).all())
