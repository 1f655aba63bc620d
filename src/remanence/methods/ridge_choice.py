"""The automatic ridge: the one of the smallest predicted error, from the stored factor alone.

With FᵀF = V diag(s²) Vᵀ for the penalized columns, p the targets along these directions, n rows, and the variance
v = (ρ + Σⱼ pⱼ²)/n of the targets:

    residual  r(λ) = ρ + Σⱼ k² pⱼ²,   k = λ/(sⱼ² + λ),   degrees of freedom  f(λ) = Σⱼ sⱼ²/(sⱼ² + λ)
    predicted error  g(λ) = leave-one-out, as of rows in general position       (C1)   general_position.py
                          = n r / (n − f)²  where n is at least MANY + r        generalized cross-validation
    noise  σ²(λ) = (ρ + Σⱼ k pⱼ²)/n                              (C2)   at its best value for this λ
    leverage  h(λ) = maxᵢ varᵢ [(FᵀF + λI)⁻¹]ᵢᵢ                  (C3)   of a row one deviation off in column i
    λ = argmin Σ over outputs of g/v + SHARE max(σ² h/v − 1, 0)  (C4)
    log evidence  = −½ (n log σ² + Σⱼ log(sⱼ²/λ + 1))            (C5)

(C1) says what rows like those learned will cost, and knows nothing of others. Where columns were almost always constant
or equal, it may prefer a ridge so small that a single new row in which they differ is predicted anywhere. (C3) is the
uncertainty there; SHARE in (C4) is the share of such rows one is prepared for, and an uncertainty that the targets
have anyhow is not counted. Choices whose predicted errors, of all rows together, differ by less than that of one row
are decided by the evidence (C5), and where that is flat too, the largest ridge is taken. Why not by the evidence
alone: docs/decisions/automatic-ridge.md.
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array
from remanence.errors import NumericalError
from remanence.memory.root import Root, sums_of_squares
from remanence.methods.ridge.general_position import left_out_errors
from remanence.methods.ridge.tridiagonal import Tridiagonal
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked
from remanence.validation import check_result

SMALLEST = 1e-280  # squared singular values are above
LOWEST, HIGHEST, POINTS = -14.0, 4.0, 145  # the ridges tried, as powers of ten of the largest squared singular value
RESOLVED = 1e-16  # squared singular values below this share of the largest are zero beside any ridge that is tried
SHARE = 1e-5  # of new rows that may be out of line in one column
MANY = 256  # rows beyond the directions, from which on positions of rows hardly matter to leave-one-out
EVEN = 1e-4  # difference of log evidences that decides nothing
WIDE = 256  # features, for one output, beyond which a tridiagonal form is quicker than eigenvectors


@dataclass(frozen=True, slots=True)
class Directions:
    """Least squares along the singular directions of the penalized columns."""

    squares: Array  # (r,) s²
    power: Array  # (r, c) p²
    rest: Array  # (c,) squared targets that no weights explain
    spread: Array  # (r, d) varᵢ Vᵢⱼ²
    unseen: Array  # (d,) varᵢ times the part of column i outside of these directions
    rows: float


@dataclass(frozen=True, slots=True)
class Terms:
    """What (C4) and (C5) consist of, for m ridges."""

    errors: Array  # (m, c) predicted errors
    forms: Array  # (m, c) Σ k p²
    logs: Array  # (m,) Σ log k
    total: Array  # (c,) n v
    rest: Array  # (c,) ρ


def best_ridge(data: Root, start: Array, unpenalized: int, rows: float, scales: Array | None = None) -> float:
    """The ridge λ for the rows behind `data`; `rows` is their (effective) number, `scales` divide the columns."""
    penalized = slice(unpenalized, None)  # unpenalized features come first: they are eliminated already
    factor = data.factor[penalized, penalized].astype(np.float64)
    gap = data.target[penalized].astype(np.float64) - factor @ start[penalized]
    if scales is not None:
        factor /= scales[penalized]
    unit, size = float(np.abs(factor).max(initial=0.0)), float(np.abs(gap).max(initial=0.0)) or 1.0
    if unit == 0:
        return 1.0  # no data to choose from
    _check_size(unit)
    parts = (factor / unit, gap / size, data.rest / size / size, rows - unpenalized)
    with one_thread, unforked:  # thousands of small products; and the same ridge for any number of threads
        ridge = _without_eigenvectors(*parts) if len(gap) ** 2 > WIDE**2 * gap.shape[1] else None
        ridge = chosen_ridge(_along_columns(*parts)) if ridge is None else ridge
    return min(ridge * unit**2, np.finfo(float).max)


def _without_eigenvectors(factor: Array, gap: Array, rest: Array, rows: float) -> float | None:
    """The same choice in a fraction of the time; None where it takes the leverage of the columns to make it.

    (C3) is at most the largest variance divided by s² + λ for the smallest s². Where the choice is one and the same
    with that bound and without any leverage, it is the choice.
    """
    if rows < len(factor) + MANY:
        return None  # (C1) takes all s²; and fewer rows than directions leave s² that are rounding
    form = Tridiagonal.of(factor, gap)
    low, top = form.extremes()
    if not low > RESOLVED * len(factor) * top:
        return None
    logs = _grid(top)
    sums = form.sums(np.exp(logs))
    if not all(np.isfinite(values).all() for values in sums):
        return None
    terms, flat = _terms(*sums, len(factor), rest, sums_of_squares(gap), rows), 1 + 1 / rows
    bound = float(sums_of_squares(factor).max()) / rows / (low + np.exp(logs))
    cost, evidence = _criteria(terms, rows, np.zeros(len(logs)))
    most, _ = _criteria(terms, rows, bound)
    good, surely = cost <= flat * most.min(), most <= flat * cost.min()
    return _best(logs, good, evidence) if (good == surely).all() else None


def _along_columns(factor: Array, gap: Array, rest: Array, rows: float) -> Directions:
    energies = sums_of_squares(factor)
    if len(factor) <= WIDE:  # squaring the factor would round small s² by as much as they are
        U, sizes, Vt = np.linalg.svd(factor)
        squares, V, along = sizes**2, Vt.T, U.T @ gap
    else:
        squares, V = np.linalg.eigh(factor.T @ factor)
        along = (V.T @ (factor.T @ gap)) / np.sqrt(np.maximum(squares, SMALLEST))[:, None]
    kept = squares > RESOLVED * len(factor) * max(float(squares.max(initial=0.0)), 0.0)
    squares, V, power = squares[kept], V[:, kept], along[kept] ** 2
    if not kept.all():
        rest = rest + np.maximum(sums_of_squares(gap) - power.sum(axis=0), 0)
    return directions(squares, V, power, rest, energies, rows)


def directions(squares: Array, V: Array, power: Array, rest: Array, energies: Array, rows: float) -> Directions:
    """From s² (r,), V (d, r), p² (r, c), the unexplained rest (c,) and the columns' sums of squares (d,)."""
    variances = energies / max(rows, 1.0)
    inside = V**2
    unseen = variances * np.maximum(1 - inside.sum(axis=1), 0)
    return Directions(squares, power, rest, (inside * variances[:, None]).T, unseen, rows)


def chosen_ridge(found: Directions) -> float:
    """The λ of (C4), and among those as good the one of the largest evidence."""
    top = float(found.squares.max(initial=0.0))
    if not 0 < top < np.inf or found.rows <= 0:
        return 1.0  # no data to choose from
    _check_size(top**0.5)
    logs = _grid(top)
    ridges = np.exp(logs)[:, None]
    k = ridges / (found.squares + ridges)  # (m, r)
    sums = (k**2 @ found.power, k @ found.power, k.sum(axis=1), np.log(k).sum(axis=1))
    terms = _terms(*sums, k.shape[1], found.rest, found.power.sum(axis=0), found.rows)
    if found.rows < k.shape[1] + MANY:
        terms.errors[:] = left_out_errors(k, found.power, terms.rest, found.rows)
    leverage = (1 / (found.squares + ridges)) @ found.spread + found.unseen / ridges  # (C3)
    cost, evidence = _criteria(terms, found.rows, leverage.max(axis=1))
    check_result(cost, evidence)
    return _best(logs, cost <= (1 + 1 / found.rows) * cost.min(), evidence)


def _grid(top: float) -> Array:
    """The logarithms of the ridges that are tried."""
    return np.linspace(np.log(top) + LOWEST * np.log(10), np.log(top) + HIGHEST * np.log(10), POINTS)


def _best(logs: Array, good: Array, evidence: Array) -> float:
    """The ridge of the largest evidence among the good ones, and of equal ones the largest."""
    best = int(np.flatnonzero(good & (evidence >= evidence[good].max() - EVEN))[-1])
    inside = 0 < best < POINTS - 1 and good[best - 1] and good[best + 1]
    return float(np.exp(logs[best] + (_vertex(evidence[best - 1 : best + 2]) * (logs[1] - logs[0]) if inside else 0)))


def _check_size(size: float) -> None:
    if not size**2 > SMALLEST:
        raise NumericalError(
            f"expected features whose squares can be told from zero, to choose a ridge for them, got features of size "
            f"{size:.0e}; rescale them"
        )


def _terms(
    squares: Array, forms: Array, shrunk: Array, logs: Array, directions: int, rest: Array, power: Array, n: float
) -> Terms:
    """From Σ k² p² (m, c), Σ k p² (m, c), Σ k (m,), Σ log k (m,), ρ (c,) and Σ p² (c,)."""
    total = rest + power
    rest = rest + 1e-14 * total  # an exact fit must not lead to λ = 0
    freedom = np.maximum(n - directions + shrunk, 1e-9 * n)[:, None]
    return Terms(n * (rest + squares) / freedom**2, forms, logs, total, rest)


def _criteria(terms: Terms, n: float, leverage: Array) -> tuple[Array, Array]:
    """(C4) and (C5) for every ridge."""
    told = (terms.total > SMALLEST).nonzero()[0]
    if not len(told):
        return np.zeros(len(leverage)), terms.logs
    variance = terms.total[told] / n
    noise = (terms.rest + terms.forms)[:, told] / n  # (C2)
    far = np.maximum(noise * leverage[:, None] / variance - 1, 0)
    cost = (terms.errors[:, told] / variance + SHARE * far).sum(axis=1)  # (C4)
    evidence = -0.5 * (n * np.log(noise).sum(axis=1) - len(told) * terms.logs)  # (C5)
    return cost, evidence


def _vertex(values: Array) -> float:
    """Where the parabola through three values at −1, 0, 1 has its maximum."""
    low, middle, high = (float(v) for v in values)
    bend = low - 2 * middle + high
    return 0.0 if bend >= 0 else min(max(0.5 * (low - high) / bend, -1.0), 1.0)
