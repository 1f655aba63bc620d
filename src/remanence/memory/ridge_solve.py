"""Ridge solution from the root of the data, with half a factor of temporary memory.

    minimise over W   ‖R W − z‖² + Σⱼ δⱼ² ‖wⱼ − startⱼ‖²                                                  (S)

`Root.with_prior` builds the joint factor as a square array beside a copy of the data's. Where only the solution is
wanted, the joint factor is kept as tiles of columns that end at the diagonal, d²/2 numbers in all, and is dropped after
back substitution. The prior is eliminated some rows at a time; its rows before them are zero to the left.
"""

import numpy as np

from remanence.arrays import Array
from remanence.kernels.fold import Fold
from remanence.kernels.folding import shared, tile
from remanence.memory.root import Root, check_solution, prior_diagonal, triangular_solver
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked

ROWS = 2  # tiles of rows of the prior that are eliminated together


def solve_with_prior(data: Root, weight: float | Array, start: Array, unpenalized: int = 0) -> Array:
    """The weights `data.with_prior(weight, start, unpenalized).solve()`, up to rounding."""
    with one_thread, unforked:
        packed, tiles = _packed(data.factor)
        target = data.target.copy(order="F")
        diagonal = prior_diagonal(weight, len(start), unpenalized, data.rounding_floor(), data.dtype)
        _eliminate_prior(packed, target, diagonal, start.astype(data.dtype, copy=False))
        W = _back_substituted(tiles, target)
    check_solution(W)
    return W


def _packed(factor: Array) -> tuple[Array, list[Array]]:
    """A copy of an upper triangular factor without what is below its tiles on the diagonal, and views of its tiles."""
    d, width = len(factor), tile(len(factor))
    count = -(-d // width)
    packed, tiles = np.empty(width * width * count * (count + 1) // 2, factor.dtype), []
    for j in range(count):
        first, rows = width * width * j * (j + 1) // 2, (j + 1) * width
        columns = factor[:rows, j * width : rows]
        held = packed[first : first + rows * columns.shape[1]].reshape(columns.shape[1], rows)[:, : len(columns)]
        held[:] = columns.T
        tiles.append(held.T)  # (rows, columns), column-major
    return packed, tiles


def _eliminate_prior(packed: Array, target: Array, diagonal: Array, start: Array) -> None:
    """Rotate the rows diag(δ) with targets diag(δ)·start into a packed factor and its target, in place."""
    (d, c), width, dtype = start.shape, tile(len(start)), packed.dtype
    T, storage = np.empty((1, -(-d // width), width, width), dtype), np.empty(ROWS * width * d, dtype)
    for skipped in range(0, T.shape[1], ROWS):
        i = skipped * width
        own = diagonal[i : i + ROWS * width]
        rows = storage[: len(own) * (d - i)].reshape(d - i, len(own)).T
        rows[:] = 0
        rows[np.arange(len(own)), np.arange(len(own))] = own
        targets, left = np.asfortranarray(own[:, None] * start[i : i + len(own)]), np.empty((1, c))
        place = (packed, target, None, None, 1.0)
        job = Fold(*place, rows, targets, None, None, None, T[:, skipped:], left, len(own), True, skipped)
        shared(job, len(own), d - i)


def _back_substituted(tiles: list[Array], target: Array) -> Array:
    """W (d, c) from the tiles of the joint factor and its target, which is used up."""
    trtrs, W = triangular_solver(target.dtype.char), np.empty(target.shape, target.dtype)
    for columns in reversed(tiles):
        last, width = columns.shape
        own = slice(last - width, last)
        W[own] = trtrs(columns[own], target[own])[0]
        target[: own.start] -= columns[: own.start] @ W[own]
    return W
