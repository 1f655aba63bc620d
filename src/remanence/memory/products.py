"""Predictions for rows of any number and precision: one pass over X, no copy of it.

    scores = (X − o)W + b                                                                              (A1)
           = XW + (b − oW)                                                                             (A2)

(A2) needs no copy of X, but its rounding error is that of numbers of the size ‖o∘w‖, which an offset o far from zero
makes larger than the scores. So the first block of rows is computed by (A1), which shows the size of the scores; all
others by (A2), or by (A1) block by block where (A2) would cost digits. Rows of another precision are converted block by
block. NaN and infinity in X reach the scores, so that X is looked at only where the scores are not finite.
"""

from contextlib import nullcontext

import numpy as np

from remanence.arrays import Array
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked
from remanence.validation import check_finite, check_result, quiet

BLOCK = 1 << 17  # numbers that are copied at once: they stay in the cache of one core
WORTH = 10**8  # n·d·c, from which on more than one BLAS thread pays: they keep their cores for long afterwards
AMPLIFIED = 16.0  # how much larger than the scores the terms of (A2) may be


@quiet
def scores_of(X: Array, W: Array, offset: Array | None = None, intercept: Array | None = None) -> Array:
    """The scores (n, c) of rows X (n, d) in float64 or float32, in the precision of W; not finite ones are refused."""
    scores = np.empty((len(X), W.shape[1]), W.dtype)
    with unforked, one_thread if len(X) * W.size < WORTH else nullcontext():
        if offset is None or intercept is None:
            _product(X, W, None, scores)
        else:
            first = min(_block(X), len(X))
            _product(X[:first], W, offset, scores[:first])  # (A1)
            scores[:first] += intercept
            if first < len(X):
                plain = is_harmless(offset, W, scores[:first])
                _product(X[first:], W, None if plain else offset, scores[first:])
                scores[first:] += intercept - offset @ W if plain else intercept  # (A2)
    _check(X, W, scores)
    return scores


def _product(X: Array, W: Array, offset: Array | None, out: Array) -> None:
    """XW or (X − o)W; where X is not in the right form, some rows at a time."""
    if offset is None and X.dtype == W.dtype:
        np.matmul(X, W, out=out)
        return
    size = _block(X)
    buffer = np.empty((min(size, len(X)), X.shape[1]), W.dtype)
    for i in range(0, len(X), size):
        part = slice(i, i + size)
        rows = buffer[: len(X[part])]
        if offset is None:
            np.copyto(rows, X[part], casting="same_kind")
        else:
            np.subtract(X[part], offset, out=rows, casting="same_kind")
        np.matmul(rows, W, out=out[part])


def _block(X: Array) -> int:
    """How many rows are copied at once."""
    return max(16, BLOCK // max(int(X.shape[1]), 1))


def is_harmless(offset: Array, W: Array, scores: Array) -> bool:
    """Whether the terms of (A2) are hardly larger than the scores."""
    terms = np.sqrt(np.square(offset) @ np.square(W))
    return bool((terms <= AMPLIFIED * np.abs(scores).max(axis=0)).all())


def _check(X: Array, W: Array, scores: Array) -> None:
    """Refuse rows that are not finite (InputError), and then scores that are not (NumericalError)."""
    if not np.isfinite(scores).all():
        check_finite(X.astype(W.dtype, copy=False), "X")
        check_result(scores)
    unused = X.size > W.size and ~W.any(axis=1)  # (a library may skip products with zero)
    if unused is False or unused.any():
        rows = X if unused is False or unused.all() else X[:, unused]
        if not np.isfinite(rows).all():
            check_finite(rows, "X")
