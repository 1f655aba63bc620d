"""Innovations: one-step prediction errors; under the model each normalized square has a χ² distribution.

e_t = y_t − X_t θ_{t|t−1}     S_t = R_t + X_t Σ_{t|t−1} X_tᵀ     square_t = e_tᵀ S_t⁻¹ e_t          (D)
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.complex.pairs import pairs_of, real_observations
from remanence.kalman.gains import at
from remanence.kalman.model import LinearGaussian
from remanence.kalman.observations import check_observations, patterns
from remanence.kalman.results import Filtered
from remanence.kalman.smoother import check_all_kept, check_filtered
from remanence.kernels.constants import CAREFUL, CONFLICT, SEEN
from remanence.memory.gaussian import gain
from remanence.methods.signals.real_pairs import complex_entries

PART = 2**12  # steps at once


@dataclass(frozen=True, slots=True, eq=False)
class Innovations:
    """One-step prediction errors and their test statistics; N series have a leading axis N.

    Parameters
    ----------
    errors : array (T, m)
        y_t minus its prediction; NaN where an observation is missing.
    squares : array (T,)
        The normalized squares, under the model χ² with `degrees` degrees of freedom; 0 for a step without observations.
    degrees : array (T,)
        The number of observations that are not determined by earlier ones.
    pvalues : array (T,)
        The probability of a square at least as large under the model.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> Y = [[0.0], [3.0]]
    >>> kalman.innovations(model, kalman.filter(model, Y), Y).pvalues.round(3)
    array([1.   , 0.058])
    """

    errors: Array  # (T, m) NaN where missing
    squares: Array  # (T,) normalized; 0 for a step without observations, infinite for an impossible one
    degrees: Array  # (T,)
    pvalues: Array  # (T,)


def innovations(model: LinearGaussian, filtered: Filtered, Y: Any) -> Innovations:
    """Compute one-step prediction errors, their normalized squares and p-values.

    Parameters
    ----------
    model : LinearGaussian
        The model that was filtered; for `extended`, the `.model` of its result.
    filtered : Filtered
        The result of `filter` or `extended`.
    Y : array
        The observations that were filtered.

    Returns
    -------
    Innovations
        In the order of Y.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(
    ...     A=np.eye(2), Q=0.1 * np.eye(2), X=np.eye(2), R=np.eye(2), mean=np.zeros(2), cov=np.eye(2)
    ... )
    >>> theta, Y = kalman.sample(model, 100, seed=0)
    >>> Y[70] += 10.0  # an outlier
    >>> int(kalman.innovations(model, kalman.filter(model, Y), Y).squares.argmax())
    70

    References
    ----------
    Mehra and Peschon (1971), "An innovations approach to fault detection and diagnosis in dynamic systems", Automatica.
    """
    from scipy.special import gammaincc

    check_filtered(model, filtered)
    if model.pairs is not None:
        found = innovations(model.pairs, pairs_of(filtered), real_observations(Y))
        return replace(found, errors=complex_entries(found.errors))
    check_all_kept(filtered, "the variance of innovations")
    observed = check_observations(model, Y)
    N, T, _ = observed.Y.shape
    many = filtered.many
    mean = filtered.predicted_mean if many else filtered.predicted_mean[None]
    if observed.many != many or mean.shape[:2] != (N, T):
        raise InputError(f"expected the Y that was filtered, {mean.shape[:2]} series and steps, got {(N, T)}")
    errors = observed.Y - expected(model, filtered, mean)
    squares, degrees = np.zeros((N, T)), np.zeros((N, T), np.int64)
    for group in observed.groups:
        cov = filtered.predicted_cov[group[0]] if many else filtered.predicted_cov
        for there, steps in patterns(observed.present(group)):
            for part in np.array_split(steps, -(-len(steps) // PART)):
                known = _plain_squares(model, cov[part], part, there, errors[group])
                if known is not None:
                    squares[np.ix_(group, part)], degrees[np.ix_(group, part)] = known, there.sum()
                    continue
                for t in part:
                    squares[group, t], degrees[group, t] = _square(model, cov[t], t, there, errors, observed.Y, group)
    pvalues = np.where(degrees > 0, gammaincc(np.maximum(degrees, 1) / 2, squares / 2), np.where(squares > 0, 0.0, 1.0))
    results = (errors, squares, degrees, pvalues)
    return Innovations(*(v if many else v[0] for v in results))


def expected(model: LinearGaussian, filtered: Filtered, mean: Array) -> Array:
    """The one-step predictions: f(θ_{t|t−1}) of an extended filter, X θ_{t|t−1} of a linear one."""
    if filtered.expected is not None:
        return filtered.expected[None]
    X = model.steps.X
    return np.asarray(mean @ X[0].T if len(X) == 1 else np.einsum("ntd,tmd->ntm", mean, X))


def _plain_squares(model: LinearGaussian, cov: Array, steps: Array, there: Array, errors: Array) -> Array | None:
    """The squares (N, T) of steps that have the same entries, at once; None where an entry may be decided by others."""
    s, o = model.steps, np.flatnonzero(there)
    X, R, least = (v if len(v) == 1 else v[steps] for v in (s.X, s.R, s.least_R))
    Z = X[:, o]
    S = Z @ cov @ Z.transpose(0, 2, 1) + R[:, o][:, :, o]
    if not (least > CAREFUL * S.diagonal(axis1=1, axis2=2).max(axis=1)).all():
        return None
    try:
        C = np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return None
    e = errors[:, steps][:, :, o]
    return np.asarray((np.linalg.solve(C, e.transpose(1, 2, 0)) ** 2).sum(axis=1).T)


def _square(
    model: LinearGaussian, cov: Array, t: int, there: Array, errors: Array, Y: Array, group: Array
) -> tuple[Array, int]:
    s = model.steps
    found = gain(cov, at(s.X, t)[there], at(s.R, t)[np.ix_(there, there)], float(at(s.least_R, t)))
    e, y = errors[group, t][:, there], Y[group, t][:, there]
    w = e @ found.W.T
    seen = found.kinds == SEEN
    square = (w[:, seen] ** 2).sum(axis=1)
    impossible = np.abs(w) > found.slack + CONFLICT * (np.abs(y) + np.abs(y - e))
    square[impossible[:, ~seen].any(axis=1)] = np.inf
    return square, int(seen.sum())
