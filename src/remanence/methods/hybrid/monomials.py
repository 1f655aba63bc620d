"""Homogeneous polynomials in (x, y) that are monic in y, and the models whose product they are.

p(x, y) = yⁿ − Σ cₘ m(x, y) = Π (y − xᵀθᵢ)                                                           (H1)
on a line of fixed x the roots yᵢ are the predictions xᵀθᵢ of the models                              (H2)
θᵢ = − ∂p/∂x / ∂p/∂y  at (x, yᵢ)                                                                     (H3)
"""

from functools import cache
from itertools import combinations_with_replacement

import numpy as np

from remanence.arrays import Array
from remanence.validation import check_result

LINES = 64  # values of x that are tried: the one whose roots are farthest apart is used


@cache
def exponents(features: int, degree: int) -> Array:
    """(M, d + 1) The exponents of the monomials of this degree, those without y first, and yⁿ last."""
    rows = np.zeros((0, features + 1), int)
    for chosen in combinations_with_replacement(range(features + 1), degree):
        rows = np.concatenate([rows, np.bincount(chosen, minlength=features + 1)[None]])
    return rows[np.argsort(rows[:, -1], kind="stable")]


def monomials(X: Array, y: Array, degree: int) -> Array:
    """(n, M) The monomials of the rows (x, y)."""
    V = np.column_stack([X, y])
    columns = [np.prod(V[:, e > 0] ** e[e > 0], axis=1) for e in exponents(X.shape[1], degree)]
    return np.stack(columns, axis=1)


def factors(coefficients: Array, spread: Array, projector: Array, degree: int) -> Array:
    """(n, d) The models θᵢ of the polynomial with these coefficients c (M − 1,), in an order that is theirs alone.

    x are combinations of the columns of `spread` (d, r), for which alone p is known; models are projected onto them.
    """
    if degree == 1 or not spread.size:  # (all x zero: nothing is known of any model)
        return (projector @ coefficients[: len(spread)])[None]
    p, powers = np.append(-coefficients, 1.0), exponents(len(spread), degree)
    rng = np.random.default_rng(0)
    lines, anywhere = rng.standard_normal((LINES, spread.shape[1])) @ spread.T, rng.standard_normal(len(spread))
    values = np.prod(_powers(lines, degree)[powers[:, :-1], :, np.arange(len(spread))], axis=1)  # (M, LINES)
    begins = np.searchsorted(powers[:, -1], np.arange(degree + 1))  # (of each power of y; they only rise)
    along_y = np.add.reduceat(p[:, None] * values, begins).T  # (LINES, n + 1) of p(x, ·), the lowest power first
    check_result(along_y)
    roots = np.sort(_roots(along_y).real, axis=1)
    sizes = np.abs(roots).max(axis=1)
    apart = np.diff(roots, axis=1).min(axis=1) / np.where(sizes > 0, sizes, 1.0)
    best = int(np.argmax(apart))
    models = np.array([projector @ _model_at(p, powers, np.append(lines[best], y)) for y in roots[best]])
    return models[np.argsort(models @ anywhere)]


def _powers(points: Array, degree: int) -> Array:
    """(degree + 1, k, d) The powers of points (k, d)."""
    return np.asarray(points ** np.arange(degree + 1)[:, None, None])


def _roots(polynomials: Array) -> Array:
    """(k, n) The roots of monic polynomials (k, n + 1), the lowest power first: eigenvalues of their companions."""
    count, degree = polynomials.shape[0], polynomials.shape[1] - 1
    companions = np.zeros((count, degree, degree))
    companions[:, 0] = -polynomials[:, -2::-1]
    companions[:, np.arange(1, degree), np.arange(degree - 1)] = 1.0
    return np.asarray(np.linalg.eigvals(companions))


def _model_at(p: Array, powers: Array, point: Array) -> Array:
    """θ from the gradient at one point (x, y) (H3)."""
    table, along = _powers(point[None], int(powers.max()))[:, 0], np.arange(len(point))
    terms, ones = table[powers, along], np.ones((len(powers), 1))
    before = np.cumprod(np.concatenate([ones, terms[:, :-1]], axis=1), axis=1)
    after = np.cumprod(np.concatenate([ones, terms[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    slopes = p @ (before * powers * table[np.maximum(powers - 1, 0), along] * after)
    return np.asarray(-slopes[:-1] / slopes[-1])
