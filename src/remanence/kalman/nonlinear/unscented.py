"""The unscented Kalman filter: nonlinear functions are linearized over the spread of the estimate, without derivatives.

    Σ = L Lᵀ     points θ, θ ± s Lₖ with s² = d + κ     weights κ/s², 1/(2s²)                                    (U1)
    f̄ = Σᵢ wᵢ f(pointᵢ)     D = [√wᵢ (f(pointᵢ) − f̄)]     U = the same of the points in units of L, U Uᵀ = I      (U2)
    X = D Uᵀ L⁻¹     E = D − X L U     so that  D Dᵀ = X Σ Xᵀ + E Eᵀ  and  L U Dᵀ = Σ Xᵀ                            (U3)

(U3) is the linear function that is nearest over the points, and E what it misses, which counts as noise. So a step of
the unscented filter is one of the linear filter in square-root form with X and R + EEᵀ (or A and Q + EEᵀ), and the
smoother is that of the linear model too. All weights are at least 0 (κ ≥ 0), so no covariance is ever downdated.
"""

from functools import partial
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.nonlinear.extended import check_linear_parts, check_transition, functions, residual_of, stepped
from remanence.kalman.nonlinear.jacobians import Minus, value_at
from remanence.kalman.results import Filtered
from remanence.memory.gaussian import RootGaussian, psd_root
from remanence.validation import check_number


def unscented(
    transition: Any,
    observe: Any,
    Y: Any,
    *,
    Q: Any,
    R: Any,
    mean: Any,
    cov: Any,
    residual: Any = None,
    kappa: float | None = None,
) -> Filtered:
    """Run the unscented Kalman filter, in square-root form; it needs no derivatives.

    On linear functions it is the Kalman filter. `smooth(f.model, f)` is the unscented smoother.

    Parameters
    ----------
    transition, observe : function of θ, or a list of one per step
        θ_t without noise from θ_{t−1} (the first transition is not used), and y_t without noise from θ_t.
    Y : array (T, m), or a list of one array per step
        The observations; NaN entries are missing.
    Q, R, mean, cov : array
        As in `LinearGaussian`: mean and cov are those of θ at the first step.
    residual : function of (y, predicted), or a list of one per step, optional
        The difference of two observations, (m,); by default y − predicted. For an angle wrap it into ±π.
    kappa : float, optional
        κ, at least 0: the functions are evaluated √(d + κ) standard deviations away. Default: max(3 − d, 0). 0 is the
        cubature filter.

    Returns
    -------
    Filtered
        As of `filter`; its `.model` is the model linearized over the spread of the estimates.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> found = kalman.unscented(
    ...     np.sin, lambda v: v**2, [[0.5], [0.4]], Q=0.01 * np.eye(1), R=0.1 * np.eye(1), mean=[1.0], cov=[[0.2]]
    ... )
    >>> found.mean.ravel().round(2)
    array([0.71, 0.63])

    References
    ----------
    Julier and Uhlmann (2004), "Unscented filtering and nonlinear estimation", Proceedings of the IEEE.
    Van der Merwe and Wan (2001), "The square-root unscented Kalman filter for state and parameter-estimation", ICASSP.
    Särkkä (2008), "Unscented Rauch–Tung–Striebel smoother", IEEE Transactions on Automatic Control.
    """
    start, checked = check_linear_parts(Y, Q, R, mean, cov)
    y, s = checked[0], start.steps
    T, d = len(y), start.features
    hint = "0 evaluates at √d standard deviations"
    spread = max(3.0 - d, 0.0) if kappa is None else check_number(kappa, "kappa", closed=True, hint=hint)
    g, f = functions(transition, "transition", T, 1), functions(observe, "observe", T, 0)
    r = functions(residual, "residual", T)
    A, Qs = np.tile(np.eye(d), (T, 1, 1)), np.tile(at(s.Q, 0), (T, 1, 1))
    X, Rs, expected = np.zeros((T, y.shape[1], d)), stepped(start, T), np.full(y.shape, np.nan)
    Rs = [np.array(noise) for noise in Rs]
    known, results = RootGaussian(start.mean, psd_root(start.cov)), []
    for t in range(T):
        if t:
            value, slope, left = _spread_through(g[t], known, spread, np.subtract, "transition")
            A[t] = check_transition(value, slope, d)
            Qs[t] = at(s.Q, t) + left @ left.T
            known = RootGaussian(value, known.advanced(A[t], Qs[t]).factor)
        before, rows = known, int(s.rows[t if len(s.rows) > 1 else 0])
        minus: Minus = np.subtract if r[t] is None else partial(residual_of, r[t])
        value, slope, left = _spread_through(f[t], before, spread, minus, "observe")
        if len(value) != rows:
            raise InputError(f"expected observe to return {rows} numbers, as Y has, got {len(value)}")
        X[t, :rows], Rs[t] = slope, at(s.R, t)[:rows, :rows] + left @ left.T
        error = minus(y[t, :rows], value)
        known, innovation = before.conditioned(slope, error + slope @ before.mean, Rs[t])
        expected[t, :rows] = value if r[t] is None else np.where(np.isnan(error), value, y[t, :rows] - error)
        if not (np.isfinite(known.mean).all() and np.isfinite(known.factor).all()):
            raise NumericalError(f"the unscented filter overflowed at step {t}; start nearer, or use a smaller Q")
        results.append((known, before, innovation.loglik))
    means, covs = (np.array([getattr(k, name) for k, _, _ in results]) for name in ("mean", "cov"))
    predicted = np.array([b.mean for _, b, _ in results]), np.array([b.cov for _, b, _ in results])
    observed = list(X) if len(set(s.rows.tolist())) == 1 else [x[:m] for x, m in zip(X, s.rows, strict=True)]
    model = LinearGaussian(A, Qs, observed, Rs, start.mean, start.cov)
    logliks = np.array([loglik for _, _, loglik in results])
    return Filtered(means, covs, *predicted, logliks, [np.arange(1)], model, expected)


def _spread_through(
    function: Any, known: RootGaussian, kappa: float, minus: Minus, name: str
) -> tuple[Array, Array, Array]:
    """The mean f̄ of a function of θ, the linear function X nearest over the points, and E, what that misses (U3)."""
    d, L = len(known.mean), known.factor
    s = np.sqrt(d + kappa)
    first = value_at(function, known.mean, name)
    others = [value_at(function, known.mean + sign * s * column, name) for sign in (1, -1) for column in L.T]  # (U1)
    if any(len(value) != len(first) for value in others):
        raise InputError(f"expected {name} to return vectors of one length, got {len(first)} numbers and others")
    away = np.array([minus(value, first) for value in others]).reshape(2 * d, -1)
    shift = away.sum(axis=0) / (2 * s**2)
    mean = first + shift
    centre = np.sqrt(kappa) * minus(first, mean) / s
    D = np.column_stack([centre, (np.array([minus(value, mean) for value in others]) / (np.sqrt(2) * s)).T])  # (U2)
    slopes = (D[:, 1 : d + 1] - D[:, d + 1 :]) / np.sqrt(2)  # D Uᵀ
    X = np.linalg.lstsq(L.T, slopes.T, rcond=None)[0].T
    missed = D.copy()
    missed[:, 1 : d + 1] -= slopes / np.sqrt(2)
    missed[:, d + 1 :] += slopes / np.sqrt(2)
    return mean, X, missed
