"""Models whose product fits the monomials best, from models near them.

    minimise ‖[A b] p(θ₁, …, θₙ)‖,   p the coefficients of Π (y − xᵀθᵢ):  Gauss-Newton steps that lower it          (N1)

A polynomial that is fitted freely to noisy samples is no product of models: it has more coefficients than n models have
numbers, and its roots take in the noise of all of them. Columns of x and y are at length 1 here.
"""

from functools import cache

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root
from remanence.methods.hybrid.monomials import exponents
from remanence.methods.hybrid.solutions import DIGITS, unit_columns

STEPS = 8
HALVINGS = 4
SETTLED = 1e-6  # a step that lowers the square by less of itself is the last one


def nearest_product(root: Root, linear: Root, models: Array) -> Array:
    """The models (n, d), better ones by (N1) where there are any; `linear` is the root of the monomials of degree 1."""
    degree, d = models.shape
    A, b, lengths = unit_columns(root)
    scales = unit_columns(linear)[2]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        sizes = lengths / np.prod(scales ** exponents(d, degree), axis=1)
        W, forms = np.column_stack([A, b]) * (sizes / sizes[-1]), models * scales[:-1] / scales[-1]
        left = W @ _product(forms)
        if not np.isfinite(left).all():
            return models
        for _ in range(STEPS):
            slopes = W @ _slopes(forms)
            if not np.isfinite(slopes).all():
                break
            step = np.linalg.lstsq(slopes, -left, rcond=DIGITS ** (1 / degree))[0].reshape(forms.shape)
            tried = ((forms + 0.5**k * step) for k in range(HALVINGS))
            better = next(((f, r) for f in tried if (r := W @ _product(f)) @ r < left @ left), None)
            if better is None:
                break
            gain = 1 - (better[1] @ better[1]) / (left @ left)
            forms, left = better
            if gain < SETTLED:
                break
    return np.asarray(forms * scales[-1] / scales[:-1])


@cache
def _raised(features: int, degree: int) -> Array:
    """(M, d + 1) The place of each monomial of this degree times each variable, among those of the next degree."""
    places = {tuple(e): i for i, e in enumerate(exponents(features, degree + 1).tolist())}
    unit = np.eye(features + 1, dtype=int)
    return np.array([[places[tuple(e)] for e in (unit + row).tolist()] for row in exponents(features, degree)])


def _product(models: Array) -> Array:
    """The coefficients of Π (y − xᵀθᵢ)."""
    p: Array = np.ones(1)
    for degree, model in enumerate(models):
        places = _raised(len(model), degree)
        p = np.asarray(np.bincount(places.ravel(), (p[:, None] * np.append(-model, 1.0)).ravel()))
    return p


def _slopes(models: Array) -> Array:
    """(M, n d) The derivatives of the coefficients by the models."""
    n, d = models.shape
    places, found = _raised(d, n - 1), np.zeros((n, d, int(_raised(d, n - 1).max()) + 1))
    for i in range(n):
        others = _product(np.delete(models, i, axis=0))
        for k in range(d):
            found[i, k, places[:, k]] = -others
    return found.reshape(n * d, -1).T
