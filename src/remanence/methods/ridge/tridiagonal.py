"""What the choice of a ridge needs to know of the data, from a tridiagonal form instead of an eigendecomposition.

    F Fᵀ = Q T Qᵀ,  w = Qᵀz                                        (T1)   once
    T + λI = L D Lᵀ                                                (T2)   O(d) for every λ, as all that follows
    Σⱼ k pⱼ² = λ wᵀ(T + λI)⁻¹w,   Σⱼ k² pⱼ² = λ² ‖(T + λI)⁻¹w‖²    (T3)   k = λ/(sⱼ² + λ)
    Σⱼ k = λ tr (T + λI)⁻¹,   Σⱼ log k = d log λ − Σᵢ log Dᵢ       (T4)
    1/[(T + λI)⁻¹]ᵢᵢ = Dᵢ + D̃ᵢ − Tᵢᵢ − λ                           (T5)   D̃: the pivots from the other end

F Fᵀ rather than FᵀF: (T3) are sums of positive terms then, so that an exact fit is not lost in rounding. The squared
condition number costs no more digits than in the squares of an eigendecomposition; weights are never made of this.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal, lapack

from remanence.arrays import Array


@dataclass(frozen=True, slots=True)
class Tridiagonal:
    """(T1) without Q."""

    diagonal: Array  # (d,)
    beside: Array  # (d - 1,)
    target: Array  # (d, c) w

    @classmethod
    def of(cls, factor: Array, target: Array) -> "Tridiagonal":
        """Of an upper triangular `factor` (d, d), d > 1, with its `target` (d, c)."""
        d, c = target.shape
        size = int(lapack.dsytrd_lwork(d, lower=1)[0].real)
        product = lapack.dlauum(np.asfortranarray(factor.T), lower=1, overwrite_c=1)[0]  # F Fᵀ, lower half
        held, diagonal, beside, tau, _ = lapack.dsytrd(product, lower=1, lwork=size, overwrite_a=1)
        w = np.array(target, order="F")
        w[1:] = lapack.dormqr("L", "T", held[1:, :-1], tau, w[1:], lwork=64 * max(c, 1))[0]
        return cls(diagonal, beside, w)

    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest s²."""
        ends = (0, len(self.diagonal) - 1)
        low, high = (eigvalsh_tridiagonal(self.diagonal, self.beside, "i", (i, i))[0] for i in ends)
        return float(low), float(high)

    def sums(self, ridges: Array) -> tuple[Array, Array, Array, Array]:
        """Σ k² p² (m, c), Σ k p² (m, c), Σ k (m,) and Σ log k (m,) of m ridges."""
        m, (d, c) = len(ridges), self.target.shape
        squares, forms, shrunk, logs = np.empty((m, c)), np.empty((m, c)), np.empty(m), np.empty(m)
        for i, ridge in enumerate(ridges):
            moved = self.diagonal + ridge
            D, lower, _ = lapack.dpttrf(moved, self.beside)  # (T2)
            D_back = lapack.dpttrf(moved[::-1], self.beside[::-1])[0][::-1]
            x = lapack.dpttrs(D, lower, self.target)[0]
            forms[i] = ridge * np.einsum("ij,ij->j", self.target, x)
            squares[i] = ridge**2 * np.einsum("ij,ij->j", x, x)  # (T3)
            shrunk[i] = ridge * (1 / (D + D_back - moved)).sum()  # (T5)
            logs[i] = d * np.log(ridge) - np.log(D).sum()  # (T4)
        return squares, forms, shrunk, logs
