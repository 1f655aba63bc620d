"""A model in continuous time as one between the times of its observations, however far apart they are.

    dθ = F θ dt + L dβ,   E[dβ dβᵀ] = q dt                                                                       (T1)
    A(Δ) = exp(FΔ)     Q(Δ) = ∫₀^Δ exp(Fs) L q Lᵀ exp(Fs)ᵀ ds                                                    (T2)
    exp([F  LqLᵀ; 0  −Fᵀ] h) = [A(h)  B; 0  A(h)⁻ᵀ]     Q(h) = B A(h)ᵀ                                            (T3)
    A(2h) = A(h)²      Q(2h) = A(h) Q(h) A(h)ᵀ + Q(h)                                                            (T4)
    exp([F  B; 0  0] h) = [A(h)  B(h); 0  I]     B(2h) = A(h) B(h) + B(h)       inputs that are held               (T5)

(T3), Van Loan's form, holds for any h but loses digits to exp(−Fᵀh) where F h is large; so it is used for h = Δ/2ᵏ with
‖F‖h ≤ 1, and (T4) k times. (T4) adds covariances, so that Q has no negative eigenvalue beyond rounding.
"""

from typing import Any, NamedTuple

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.memory.gaussian import symmetric
from remanence.validation import check_count, check_finite, check_numbers


class Motion(NamedTuple):
    """A preset for `LinearGaussian.from_continuous`: its F and L, and the X that observes the positions.

    Parameters
    ----------
    F : array (d, d)
        The differential equation dθ = F θ dt without noise.
    L : array (d, dimensions)
        Where the noise enters: the highest derivative.
    X : array (dimensions, d)
        The observation of all positions.

    Examples
    --------
    >>> from remanence import kalman
    >>> kalman.constant_velocity(1).F
    array([[0., 1.],
           [0., 0.]])
    """

    F: Array
    L: Array
    X: Array


def random_walk(dimensions: int = 1) -> Motion:
    """Positions that wander: white noise moves them; θ holds the positions.

    Parameters
    ----------
    dimensions : int
        The number of positions.

    Returns
    -------
    Motion
        F, L, X for `LinearGaussian.from_continuous`.

    Examples
    --------
    >>> from remanence import kalman
    >>> kalman.random_walk(2).F.shape
    (2, 2)
    """
    return _motion(1, dimensions)


def constant_velocity(dimensions: int = 1) -> Motion:
    """A velocity that wanders: white noise accelerates; θ holds all positions, then all velocities.

    Parameters
    ----------
    dimensions : int
        The number of positions.

    Returns
    -------
    Motion
        F, L, X for `LinearGaussian.from_continuous`.

    Examples
    --------
    >>> from remanence import kalman
    >>> motion = kalman.constant_velocity(2)
    >>> motion.F.shape, motion.L.shape, motion.X.shape
    ((4, 4), (4, 2), (2, 4))
    """
    return _motion(2, dimensions)


def constant_acceleration(dimensions: int = 1) -> Motion:
    """An acceleration that wanders; θ holds all positions, then all velocities, then all accelerations.

    Parameters
    ----------
    dimensions : int
        The number of positions.

    Returns
    -------
    Motion
        F, L, X for `LinearGaussian.from_continuous`.

    Examples
    --------
    >>> from remanence import kalman
    >>> kalman.constant_acceleration(3).F.shape
    (9, 9)
    """
    return _motion(3, dimensions)


def _motion(order: int, dimensions: int) -> Motion:
    n = check_count(dimensions, "dimensions")
    each = np.eye(n)
    last, first = np.eye(order)[:, -1:], np.eye(order)[:1]
    return Motion(np.kron(np.eye(order, k=1), each), np.kron(last, each), np.kron(first, each))


def between_times(F: Any, L: Any, q: Any, times: Any, B: Any = None) -> tuple[Array, Array, Array | None]:
    """A, Q (T, d, d), and B (T, d, k) for held inputs, that lead into each time from the one before."""
    F, L, q = (_finite(value, name) for value, name in ((F, "F"), (L, "L"), (q, "q")))
    if F.ndim != 2 or F.shape[0] != F.shape[1] or not F.size:
        raise InputError(f"expected F of shape (d, d), got {F.shape}; it is dθ = F θ dt")
    d = len(F)
    if L.ndim != 2 or len(L) != d:
        raise InputError(f"expected L of shape ({d}, noises), as F has {d} rows, got {L.shape}; use np.eye({d})")
    k = L.shape[1]
    q = q * np.eye(k) if q.ndim == 0 else q
    if q.shape != (k, k):
        raise InputError(f"expected q, the density of {k} noises, as a number or of shape ({k}, {k}), got {q.shape}")
    size = float(np.abs(q).max(initial=0.0))
    if np.abs(q - q.T).max(initial=0.0) > 1e-10 * size or np.linalg.eigvalsh(q).min(initial=0.0) < -1e-10 * size:
        raise InputError("expected q symmetric and positive semidefinite, as a covariance is, got another matrix")
    inputs = np.zeros((d, 0)) if B is None else _finite(B, "B")
    if inputs.ndim != 2 or len(inputs) != d:
        raise InputError(f"expected B of shape ({d}, inputs), as F has {d} rows, got {inputs.shape}")
    steps, which = np.unique(_intervals(times), return_inverse=True)
    found = _discrete(F, symmetric(L @ q @ L.T), inputs, steps)
    if not all(np.isfinite(part).all() for part in found):
        raise InputError(f"expected times near enough for exp(FΔ) to be finite, got Δ up to {steps[-1]:.2g}; rescale F")
    A, Q, held = (part[which] for part in found)
    return A, Q, None if B is None else held


def _finite(value: Any, name: str) -> Array:
    array = check_numbers(value, name, np.float64)
    check_finite(array, name)
    return array


def _intervals(times: Any) -> Array:
    t = _finite(times, "times")
    if t.ndim != 1 or not len(t):
        raise InputError(f"expected times of shape (T,), at least one, got {t.shape}")
    gaps = np.diff(t, prepend=t[:1])
    if (gaps < 0).any():
        raise InputError(
            f"expected times in ascending order, got {t[np.argmin(gaps)]:g} after {t[np.argmin(gaps) - 1]:g}; "
            f"sort them (equal ones are allowed: several observations of one time)"
        )
    return gaps


def _discrete(F: Array, noise: Array, inputs: Array, steps: Array) -> tuple[Array, Array, Array]:
    """A(Δ), Q(Δ) (n, d, d) and B(Δ) (n, d, k) for the intervals Δ (n,)."""
    from scipy.linalg import expm

    d, size = len(F), float(np.linalg.norm(F))
    with np.errstate(divide="ignore"):
        halvings = np.maximum(np.ceil(np.log2(size * steps)), 0).astype(int)
    h = np.ldexp(steps, -halvings)[:, None, None]
    grown = expm(np.block([[F, noise], [np.zeros((d, d)), -F.T]]) * h)  # (T3)
    A = np.ascontiguousarray(grown[:, :d, :d])
    Q = _symmetric(grown[:, :d, d:] @ _turned(A))
    k = inputs.shape[1]
    B = expm(np.block([[F, inputs], [np.zeros((k, d + k))]]) * h)[:, :d, d:].copy()  # (T5)
    with np.errstate(over="ignore", invalid="ignore"):
        for done in range(int(halvings.max(initial=0))):
            more = halvings > done
            Q[more] += _symmetric(A[more] @ Q[more] @ _turned(A[more]))  # (T4)
            B[more] += A[more] @ B[more]
            A[more] = A[more] @ A[more]
    return A, Q, B


def _turned(P: Array) -> Array:
    return P.transpose(0, 2, 1)


def _symmetric(P: Array) -> Array:
    return (P + _turned(P)) / 2
