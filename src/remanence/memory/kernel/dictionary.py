"""A dictionary of samples and the Cholesky factor of their kernel matrix, which grows by a bordered column.

    K + νI = TᵀT      u = T⁻ᵀ k(x)      a = T⁻¹ u      δ = k(x, x) − ‖u‖²                                (D1)
    δ > tolerance:  T ← [T  u; 0  √(δ + ν)]                                                              (D2)

k(x) are the kernels between x and the dictionary, a the coefficients of the nearest point to φ(x) in its span, and δ
the squared distance from there (approximate linear dependence) plus ν‖a‖².

Samples come in the order of time: near neighbours may join first and a far one later. In that order each small pivot
amplifies the rounding errors of those before it. The nugget ν, some units of rounding, bounds that: ‖a‖² ≤ 1/ν.  (D3)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from remanence.arrays import Array
from remanence.memory.kernel.functions import kernel_matrix
from remanence.memory.root import triangular_solver

BLOCK = 256  # rows that are best compared with each other at once
NUGGET = 4096 * float(np.finfo(np.float64).eps)  # ν


@dataclass(frozen=True, slots=True)
class KernelDictionary:
    """Samples, and the upper triangular factor of their kernel matrix."""

    points: Annotated[Array, "m d"]
    factor: Annotated[Array, "m m"]  # T

    def distances(self, values: Array) -> Array:
        """δ of rows whose kernels with the dictionary are `values` (n, m) (D1)."""
        U = self.solve(values.T, transposed=True)
        return np.asarray(1 - np.einsum("ij,ij->j", U, U))

    def grown(self, kernel: str, width: float, tolerance: float, X: Array) -> tuple["KernelDictionary", Array, Array]:
        """With those rows of X, in order, that the samples before them do not span.

        Also the map (m, m') from kernels with the old samples to kernels with all of them, a linear one for rows that
        are not at hand any more, and the kernels of the rows of X (n, m'). A row that came before a sample joined has
        that map in its place, as if it had been learned alone.
        """
        m, n, r = len(self.points), len(X), len(self.points)
        rows = np.zeros((n, m + n), X.dtype)
        rows[:, :m] = kernel_matrix(kernel, width, X, self.points)
        U, change = np.zeros((m + n, n), X.dtype), np.zeros((m, m + n), X.dtype)
        U[:m], change[:, :m] = self.solve(rows[:, :m].T, transposed=True), np.eye(m)
        left = 1 - np.einsum("ij,ij->j", U, U)  # δ
        least = max(tolerance, 4 * NUGGET)
        if left.max() <= least:
            return self, change[:, :m], rows[:, :m]
        among, points = kernel_matrix(kernel, width, X, X), [self.points]
        T = np.zeros((m + n, m + n), X.dtype, order="F")
        T[:m, :m] = self.factor
        for i in np.flatnonzero(left > least):  # (δ only falls)
            if left[i] <= least:
                continue
            a = _triangular(T[:r, :r], U[:r, i])
            T[:r, r], T[r, r] = U[:r, i], np.sqrt(left[i] + NUGGET)  # (D2)
            U[r, i:] = (among[i, i:] - U[:r, i] @ U[:r, i:]) / T[r, r]
            left[i:] -= U[r, i:] ** 2
            rows[:i, r], rows[i:, r] = rows[:i, :r] @ a, among[i, i:]
            change[:, r] = change[:, :r] @ a
            points.append(X[i : i + 1])
            r += 1
        grown = KernelDictionary(np.concatenate(points), T[:r, :r].copy(order="F"))
        return grown, change[:, :r], rows[:, :r]

    def without(self, i: int) -> tuple["KernelDictionary", Array]:
        """Without sample i, and coefficients (m,) of the part of φ(xᵢ) outside the span of the others, at length 1."""
        factor = np.asfortranarray(np.linalg.qr(np.delete(self.factor, i, axis=1), mode="r"))
        unit = np.zeros((len(self.factor), 1), self.factor.dtype)
        unit[i] = 1
        column = self.solve(self.solve(unit, transposed=True))[:, 0]  # of K⁻¹
        return KernelDictionary(np.delete(self.points, i, axis=0), factor), column / np.sqrt(column[i])

    def cost_of_removal(self, W: Array) -> Array:
        """(m,) How much of ‖f‖² is lost without each sample, f of the coefficients W (m, c): ‖wᵢ‖² / (K⁻¹)ᵢᵢ."""
        inverse = self.solve(np.eye(len(W), dtype=W.dtype, order="F"))
        return np.asarray(np.einsum("ij,ij->i", W, W) / np.einsum("ij,ij->i", inverse, inverse))

    def solve(self, B: Array, transposed: bool = False) -> Array:
        """T⁻¹B, or T⁻ᵀB."""
        return _triangular(self.factor, B, transposed)


def _triangular(T: Array, B: Array, transposed: bool = False) -> Array:
    return np.asarray(triangular_solver(B.dtype.char)(T, B, trans=int(transposed))[0]) if len(T) else B.copy()


def no_points(features: int, like: Array) -> KernelDictionary:
    """The dictionary of no samples."""
    return KernelDictionary(np.zeros((0, features), like.dtype), np.zeros((0, 0), like.dtype, order="F"))
