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


def factors(coefficients: Array, features: int, degree: int) -> Array:
    """(n, d) The models θᵢ of the polynomial with these coefficients c (M − 1,), in the order of their predictions."""
    if degree == 1:
        return coefficients[None]
    powers, p = exponents(features, degree), np.append(-coefficients, 1.0)
    lines = np.random.default_rng(0).standard_normal((LINES, features))
    gap, best, roots = -1.0, lines[0], np.zeros(degree)
    for x in lines:
        polynomial = _along_y(p, powers, x)
        check_result(polynomial)
        found = np.sort(np.roots(polynomial).real)
        apart = float(np.min(np.diff(found))) / (float(np.abs(found).max()) or 1.0)
        if len(found) == degree and apart > gap:
            gap, best, roots = apart, x, found
    return np.array([_model_at(p, powers, best, y) for y in roots])


def _along_y(p: Array, powers: Array, x: Array) -> Array:
    """The coefficients of p(x, ·) in y, the highest power first."""
    degree = int(powers[0].sum())
    values = p * np.prod(x ** powers[:, :-1], axis=1)
    return np.array([values[powers[:, -1] == k].sum() for k in range(degree, -1, -1)])


def _model_at(p: Array, powers: Array, x: Array, y: float) -> Array:
    """θ from the gradient at one point (H3)."""
    point, slopes = np.append(x, y), np.empty(len(x) + 1)
    for j in range(len(point)):
        lowered = powers.copy()
        lowered[:, j] = np.maximum(lowered[:, j] - 1, 0)
        slopes[j] = (p * powers[:, j]) @ np.prod(point**lowered, axis=1)
    return np.asarray(-slopes[:-1] / slopes[-1])
