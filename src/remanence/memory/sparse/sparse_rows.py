"""Rows that are mostly zero, and a few dense rows that are added to all of them in some proportion.

    A = S + L D            S (n, d) of scipy.sparse, L (n, k), D (k, d), k of one or two                     (SR)

Subtracting an offset, adding a column of ones and rotating rows with those of an intercept lead from one such form to
another, so that none of them makes all entries dense.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.memory.products import is_harmless
from remanence.validation import check_finite, check_result, quiet

BLOCK = 1 << 23  # numbers of sparse rows that are made dense at once


def is_sparse(X: Any) -> bool:
    """Whether X is a matrix or an array of scipy.sparse, without importing it."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows A = S + L D (SR)."""

    sparse: Any  # (n, d) S, of scipy.sparse by rows
    left: Array  # (n, k) L
    right: Array  # (k, d) D

    @property
    def shape(self) -> tuple[int, int]:
        return self.sparse.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.right.dtype

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, rows: Any) -> "SparseRows":
        return SparseRows(self.sparse[rows], self.left[rows], self.right)

    def __matmul__(self, W: Array) -> Array:
        """A W, (n, c)."""
        return np.asarray(self.sparse @ W + self.left @ (self.right @ W))

    def transposed_product(self, M: Array) -> Array:
        """AᵀM, (d, m)."""
        return np.asarray(self.sparse.T @ M + self.right.T @ (self.left.T @ M))

    def gram(self) -> Array:
        """A Aᵀ, (n, n)."""
        crossed = np.asarray(self.sparse @ self.right.T) @ self.left.T
        dense = self.left @ (self.right @ self.right.T) @ self.left.T
        return np.asarray((self.sparse @ self.sparse.T).toarray() + crossed + crossed.T + dense)

    def scaled(self, by: Array) -> "SparseRows":
        """With every row multiplied by its number."""
        by = by.astype(self.dtype, copy=False)
        scaled = self.sparse.copy()
        scaled.data = scaled.data * np.repeat(by, np.diff(scaled.indptr))
        return SparseRows(scaled, self.left * by[:, None], self.right)

    def dense(self) -> Array:
        return np.asarray(self.sparse.toarray() + self.left @ self.right)


def plain_rows(X: Any, dtype: Any) -> SparseRows:
    """The rows of a matrix of scipy.sparse, nothing added."""
    n, d = X.shape
    return SparseRows(X.tocsr().astype(dtype, copy=False), np.zeros((n, 0), dtype), np.zeros((0, d), dtype))


def centred_rows(X: Any, offset: Array) -> SparseRows:
    """The rows of a matrix of scipy.sparse minus an offset, after a column of ones."""
    n, d = X.shape
    X = X.tocsr().astype(offset.dtype, copy=False)
    shifted = type(X)((X.data, X.indices + 1, X.indptr), shape=(n, d + 1))
    return SparseRows(shifted, np.ones((n, 1), offset.dtype), np.append(offset.dtype.type(1), -offset)[None])


def rows_at_once(features: int) -> int:
    """How many sparse rows are made dense at once."""
    return max(16, BLOCK // max(features, 1))


def dense_blocks(X: Any) -> Iterator[tuple[slice, Array]]:
    """Rows of scipy.sparse as dense blocks; an array is one block."""
    if not is_sparse(X):
        yield slice(0, len(X)), X
        return
    X, size = X.tocsr(), rows_at_once(X.shape[1])
    for i in range(0, X.shape[0], size):
        part = slice(i, min(i + size, X.shape[0]))
        yield part, X[part].toarray()


@quiet
def sparse_scores(X: Any, W: Array, offset: Array | None = None, intercept: Array | None = None) -> Array:
    """`scores_of` for rows of scipy.sparse: they stay sparse where that costs no digits."""
    X = X.tocsr().astype(W.dtype, copy=False)
    check_finite(X.data, "X")
    scores = np.asarray(X @ W)
    if offset is not None and intercept is not None:
        whole = scores + (intercept - offset @ W)
        if is_harmless(offset, W, whole):
            scores = whole
        else:
            for part, rows in dense_blocks(X):
                scores[part] = (rows - offset) @ W + intercept
    check_result(scores)
    return scores
