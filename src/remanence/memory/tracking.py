"""Fold rows into a root and obtain, from the rotations themselves, each row's error before it was folded.

One row: rotating [√g xᵀ, √g yᵀ] into [R z] row by row leaves √g α behind; the error before was e = α / Π cₖ      (T1)
(cₖ the cosines). With the factor √g taken out of the row, g = 0 is no special case:

    r = √(R²ₖₖ + g xₖ²)    Rₖⱼ ← (RₖₖRₖⱼ + g xₖxⱼ)/r    xⱼ ← (Rₖₖxⱼ − xₖRₖⱼ)/r                                  (T2)

A block: with B the part of Qᵀ that maps the new rows onto what is left, Qᵀ[0; I] = [·; B], and B = Q'L, L lower
triangular, the errors are those of the rows one after the other:  e = diag(L)⁻¹ Q'ᵀ r,  r what is left of Y       (T3)

A prior that is another one at every row: its rows diag(δ) are rotated into a copy of [R z], then x with g = 0, which
leaves e behind (T1) without a solution for the weights. Of the copy only e is kept.                                (T4)
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.kernels.reflections import reflect_rows
from remanence.kernels.rotations import rotate_rows
from remanence.memory.products import scores_of
from remanence.memory.root import Root, prior_floor, sums_of_squares
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked

NARROW = 160  # features up to which a compiled loop over rows beats blocks


@cache
def _geqrf(dtype: str) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(("geqrf",), dtype=np.dtype(dtype))[0]


def is_narrow(weights: Array) -> bool:
    """Whether the compiled loop over rows is the fastest way."""
    features, outputs = weights.shape
    return bool(features <= NARROW and outputs <= 32)


def rows_per_call(weights: Array, forget: float) -> int:
    """Rows per call of `fold`: many for the compiled loop, blocks otherwise, never so many that they decay to zero."""
    features = len(weights)
    rows = 1024 if is_narrow(weights) else 48 if features < 512 else 96 if features < 1024 else 128
    return rows if forget >= 1 else max(1, min(rows, int(-60.0 / np.log(forget))))


class Tracker:
    """Folds rows into a root and returns each row's error before it; the root passed in is overwritten."""

    def __init__(self, root: Root, forget: float) -> None:
        self.root, self.forget = root, forget
        self.scale = 1.0  # the true factor is scale · root: scaling a number is cheaper than scaling a matrix
        self.square = root.size() ** 2  # ‖R‖², kept up to date

    def fold(self, X: Array, Y: Array, gain: float) -> Array:
        """The errors of the rows, (n, c), now folded in.

        Each row decays everything before it by `forget` < 1; with `forget` ≥ 1 row i weighs gain / forgetⁱ, i = 1, 2, …
        """
        n, decay = len(X), min(self.forget, 1.0)
        weights = np.exp(-np.log(self.forget) * (np.arange(1.0, n + 1) - (n if decay < 1 else 0))) * gain
        self.square = self.square * decay**n + float(weights @ np.einsum("ij,ij->i", X, X, dtype=np.float64))
        if is_narrow(self.root.target):
            self.root, errors = _fold_rows(self.root, X, Y, np.ones(n) if decay < 1 else weights, decay)
            return errors
        if weights.min() < 1e-250:  # rows that weigh nothing leave the model as it is
            return Y - scores_of(X, self.root.solve())
        self.scale *= np.sqrt(decay**n)
        with one_thread, unforked:
            self.root, errors = _fold_block(self.root, X, Y, np.sqrt(weights) / self.scale)
        if self.scale < 1e-30:
            self.result()
        return errors

    def result(self) -> Root:
        """The root with all rows folded in so far."""
        if self.scale != 1.0:
            scale = self.root.dtype.type(self.scale)
            self.root.factor[:] *= scale
            self.root.target[:] *= scale
            self.root = Root(self.root.factor, self.root.target, self.root.rest * self.scale**2)
            self.scale = 1.0
        return self.root

    def prior_floor(self) -> float:
        """See Root.prior_floor."""
        return prior_floor(self.square, self.root.dtype)

    def renew_prior(self, weight: float, start: Array, unpenalized: int) -> None:
        """Add a prior of this weight where the old one has decayed below the floor."""
        self.root = self.result().flush_tiny().with_prior(weight, start, unpenalized)


def _fold_rows(root: Root, X: Array, Y: Array, weights: Array, decay: float) -> tuple[Root, Array]:
    (n, d), c, even = X.shape, Y.shape[1], len(X) + len(X) % 2
    rows, targets, errors = (np.zeros((even, width), root.dtype) for width in (d, c, c))
    rows[:n], targets[:n] = X, Y
    given, decays = np.zeros(even, root.dtype), np.ones(even, root.dtype)
    given[:n], decays[:n] = weights, np.sqrt(decay)
    factor, target, rest = np.ascontiguousarray(root.factor), np.ascontiguousarray(root.target), root.rest.copy()
    rotate_rows(factor, target, rest, rows, targets, given, decays, errors)
    return Root(np.asfortranarray(factor), np.asfortranarray(target), rest), errors[:n]


def errors_beside_priors(
    data: Root, X: Array, Y: Array, weights: Array, decay: float, start: Array, prior: Callable[[int, Root], Array]
) -> Array:
    """The error of every row before it was folded into the data, beside a prior of its own: prior(i, data) is δ (T4).

    Row i weighs weights[i], and decays everything before it by `decay`; `data` is not written to.
    """
    (n, d), c, dtype = X.shape, Y.shape[1], data.dtype
    root = Root(data.factor.copy(order="C"), data.target.copy(order="C"), data.rest.copy(), lost=data.lost)
    errors, one = np.empty((n, c), dtype), np.zeros((2, c), dtype)
    even = d + 2 - d % 2  # the prior's rows, x, and an empty one where that makes them even
    rows, targets, left = np.empty((even, d), dtype), np.empty((even, c), dtype), np.empty((even, c), dtype)
    given, kept = (np.arange(even) < d).astype(dtype), np.ones(even, dtype)
    weight, fades = np.zeros(2, dtype), np.array([np.sqrt(decay), 1], dtype)
    for i in range(n):
        diagonal = prior(i, root)
        rows[:], targets[:] = 0, 0
        np.fill_diagonal(rows[:d], diagonal)
        targets[:d] = diagonal[:, None] * start
        rows[d], targets[d] = X[i], Y[i]
        joint = root.factor.copy(), root.target.copy(), np.zeros(c)
        rotate_rows(*joint, rows, targets, given, kept, left)
        errors[i] = left[d]  # (T4)
        pair, own = np.zeros((2, d), dtype), np.zeros((2, c), dtype)
        pair[0], own[0], weight[0] = X[i], Y[i], weights[i]
        rotate_rows(root.factor, root.target, root.rest, pair, own, weight, fades, one)
        if decay < 1 and i % 256 == 255:
            root.flush_tiny()
    return errors


def _fold_block(root: Root, X: Array, Y: Array, scale: Array) -> tuple[Root, Array]:
    (n, d), c, dtype = X.shape, Y.shape[1], root.dtype
    scale = scale.astype(dtype)[:, None]
    rows = np.zeros((n, d + c + n), dtype, order="F")
    np.multiply(X, scale, out=rows[:, :d])
    np.multiply(Y, scale, out=rows[:, d : d + c])
    rows[np.arange(n), d + c + n - 1 - np.arange(n)] = 1  # I with its columns reversed: QL becomes QR
    factor, target = root.factor, np.asfortranarray(root.target)
    reflect_rows(factor, target, rows, 16 if d < 512 else 32)
    left = rows[:, d : d + c]
    triangle = _geqrf(dtype.char)(np.concatenate([rows[:, d + c :], left], axis=1), overwrite_a=1)[0]
    errors = triangle[::-1, n:] / (np.diagonal(triangle)[::-1, None] * scale)  # (T3)
    return Root(factor, target, root.rest + sums_of_squares(left)), errors
