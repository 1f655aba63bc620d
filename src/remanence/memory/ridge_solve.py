"""Ridge solution from the root of the data, with half a factor of temporary memory.

    minimise over W   ‖R W − z‖² + Σⱼ δⱼ² ‖wⱼ − startⱼ‖²                                                  (S)

`Root.with_prior` builds the joint factor as a square array beside a copy of the data's. Where only the solution is
wanted, the joint factor is kept as panels of TILE rows that begin at the diagonal, d²/2 numbers in all, and is dropped
after back substitution. The prior is eliminated panel by panel, TILE rows at a time.
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root, check_solution, lapack, prior_diagonal
from remanence.parallel.blas_threads import one_thread
from remanence.parallel.forking import unforked

TILE = 64


def solve_with_prior(data: Root, weight: float, start: Array, unpenalized: int = 0) -> Array:
    """The weights `data.with_prior(weight, start, unpenalized).solve()`, up to rounding."""
    with one_thread, unforked:
        panels = _panels(data)
        diagonal = prior_diagonal(weight, len(start), unpenalized, data.rounding_floor(), data.dtype)
        _eliminate_prior(panels, diagonal, start.astype(data.dtype, copy=False))
        W = _back_substituted(panels, *data.shape)
    check_solution(W)
    return W


def _panels(data: Root) -> list[Array]:
    """[R z] in panels of TILE rows from the diagonal on, each (TILE, d − i + c), column-major."""
    (d, c), panels = data.shape, []
    for i in range(0, d, TILE):
        rows = slice(i, min(i + TILE, d))
        panel = np.empty((rows.stop - i, d - i + c), data.dtype, order="F")
        panel[:, : d - i], panel[:, d - i :] = data.factor[rows, i:], data.target[rows]
        panels.append(panel)
    return panels


def _eliminate_prior(panels: list[Array], diagonal: Array, start: Array) -> None:
    """Rotate the rows diag(δ) with targets diag(δ)·start into the panels, in place."""
    d, c = start.shape
    tpqrt, tpmqrt, _ = lapack(diagonal.dtype.char)
    for first, i in enumerate(range(0, d, TILE)):
        width = min(TILE, d - i)
        rows = np.zeros((width, d - i + c), diagonal.dtype, order="F")
        rows[np.arange(width), np.arange(width)] = diagonal[i : i + width]
        rows[:, d - i :] = diagonal[i : i + width, None] * start[i : i + width]
        for k, panel in enumerate(panels[first:]):
            own, rest = len(panel), rows[:, k * TILE :]
            triangle = width if k == 0 else 0  # rows are triangular until they have met the first panel
            args = (panel[:, :own], rest[:, :own])
            _, V, T, _ = tpqrt(triangle, min(own, 16), *args, overwrite_a=1, overwrite_b=1)
            tpmqrt(triangle, V, T, panel[:, own:], rest[:, own:], side="L", trans="T", overwrite_a=1, overwrite_b=1)


def _back_substituted(panels: list[Array], d: int, c: int) -> Array:
    """W (d, c) from the joint factor and target in the panels."""
    trtrs, W = lapack(panels[0].dtype.char)[2], np.empty((d, c), panels[0].dtype)
    for k in range(len(panels) - 1, -1, -1):
        panel, i = panels[k], k * TILE
        own = len(panel)
        W[i : i + own] = trtrs(panel[:, :own], panel[:, d - i :] - panel[:, own : d - i] @ W[i + own :])[0]
    return W
