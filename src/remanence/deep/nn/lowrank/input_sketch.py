"""The leading directions of many inputs of a wide layer from one pass of matrix products in single precision.

    T = X Ω                                   (Q2)   in float32, Ω (d, l), l ≈ 1.5 rank, the same for all rows
    Y = Σ xᵀ t,  M = Σ tᵀ t                   (Q3)   products in float32, their sums in float64
    C ≈ Y M⁺ Yᵀ = V s² Vᵀ                     (Q4)   Nyström's approximation of the Gram matrix C = XᵀX; cut to `rank`
    z = s Vᵀ Wᵀ                               (Q5)   the layer's outputs along them

(Q4) is Xᵀ P X for the projection P onto the columns of T, so it is from below whatever T is, and rounding T only means
another T. It is the same for Ω B with any invertible B. `starting_matrix.py` chooses Ω so that the columns of T are
about orthonormal on the first rows, and for later ones

    Ω ← Ω B,  Y ← Y B,  M ← Bᵀ M B ≈ I        (Q6)

where they make T large (data in the order of their classes), before they count. So Y is as large as the strengths, not
as their squares, and float32 resolves directions down to its own precision: 16 ε of all strengths (`ROUNDING`).
A row costs 2 d l + l² multiplications. Up to l rows are kept as they are and decomposed at the end, as in
`lowrank_root.py`.

References: Tropp, Yurtsever, Udell and Cevher (2017), "Fixed-rank approximation of a positive-semidefinite matrix from
streaming data", NeurIPS.
"""

import math

import numpy as np
import torch
from scipy.linalg import solve_triangular
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.lowrank.lowrank_root import LowRankRoot
from remanence.deep.nn.lowrank.starting_matrix import EPS, inverse_root, starting_matrix, whitening
from remanence.deep.nn.thin_products import times
from remanence.memory.truncated_svd import Spectrum, no_spectrum

LARGE = 64.0  # square of a column of T: above, it takes digits from the sums, which begin at one
HIDING = 1 / EPS  # here T itself has errors as large as the earlier rows: a second change of basis sees them again
FAR = 2.0**20  # rows so much larger than the first ones are brought to another unit, so that no product overflows
ROUNDING = 16 * EPS  # of all strengths: a weaker direction may be an error of the sums


class InputSketch:
    """Collects the inputs (n, d) of one matrix, on the device they are given on."""

    def __init__(self, inputs: int, rank: int) -> None:
        self.inputs, self.rank = inputs, min(rank, inputs)
        self.width = min(inputs, rank + rank // 2 + 16)
        self.pending: list[Tensor] = []
        self.count = 0  # rows in `pending`
        self.energy = self.pending_energy = 0.0
        self.scale, self.largest = 1.0, 0.0  # of the rows in products, and their norm at which it has to change
        self.test: Tensor | None = None  # Ω (d, l)
        self.products = self.core = torch.empty(0)  # Yᵀ (l, d) and M (l, l)

    def fold(self, X: Tensor) -> None:
        """Add rows X (n, d)."""
        energy = _energy(X)
        if energy == 0.0:  # no rows, or rows of zeros
            return
        self.energy += energy
        self.pending_energy += energy
        self.pending.append(X.float())
        self.count += len(X)
        if self.count > self.width * (1.0 if self.started else 2.0) and math.isfinite(self.energy):
            self._multiply()
        else:
            self.pending[-1] = self.pending[-1].clone()  # the model may change its activations in place

    @property
    def started(self) -> bool:
        return self.test is not None

    def _multiply(self) -> None:
        scale, X = self.scale, self._take_pending()
        if self.test is None:
            self.test = starting_matrix(X, self.width)
            self.products = torch.zeros(self.width, self.inputs, dtype=torch.float64, device=X.device)
            self.core = torch.zeros(self.width, self.width, dtype=torch.float64, device=X.device)
        T = times(X, self.test)  # (Q2)
        core = times(T.mT, T).double()
        largest = float(core.diagonal().max())
        if largest > LARGE or self.scale != scale:
            for _ in range(2 if largest > HIDING or self.scale != scale else 1):
                T = self._change_basis(X, T.double())
            core = times(T.mT, T).double()
        if self.width < self.inputs:
            self.products += times(T.mT, X)  # (Q3)
        self.core += core

    def _change_basis(self, X: Tensor, T: Tensor) -> Tensor:
        """Choose B for the earlier rows and X, and return the new X Ω (Q6)."""
        assert self.test is not None
        B = whitening(self.core + T.mT @ T)  # in float64: errors of the size of T would hide the earlier rows
        self.test = (self.test.double() @ B).float()
        self.products, self.core = B.mT @ self.products, B.mT @ self.core @ B
        return times(X, self.test)

    def _take_pending(self) -> Tensor:
        """Return the pending rows in a unit in which their products are far from overflow."""
        X = self.pending[0] if len(self.pending) == 1 else torch.cat(self.pending)
        norm = math.sqrt(self.pending_energy)
        self.pending, self.count, self.pending_energy = [], 0, 0.0
        if norm * self.scale > self.largest:
            scale = 1.0 if 1 / FAR < norm < FAR else 2.0 ** -min(max(math.frexp(norm)[1], -100), 100)
            self.products *= (scale / self.scale) ** 2
            self.core *= (scale / self.scale) ** 2
            self.scale, self.largest = scale, FAR * norm * scale
        return X if self.scale == 1.0 else X * self.scale

    def root(self, W: Array) -> LowRankRoot:
        """Return the memory of all rows, with the outputs of a matrix W (c, d)."""
        empty = LowRankRoot(no_spectrum(self.inputs, len(W)), self.rank)
        if not self.started and self.count <= self.width:
            X = torch.cat(self.pending).double().cpu().numpy() if self.pending else np.zeros((0, self.inputs))
            return empty.folded(X, X @ W.T)
        if self.pending:
            self._multiply()
        V, s = self._leading()
        dropped = max(self.energy - float(s @ s), 0.0)
        return LowRankRoot(Spectrum(V, s, (W @ V * s).T, np.zeros(len(W)), dropped), self.rank)  # (Q5)

    def _leading(self) -> tuple[Array, Array]:
        """Return the basis (d, r) and the strengths of the strongest directions (Q4)."""
        assert self.test is not None
        M = self.core.cpu().numpy()
        whole = self.width == self.inputs  # Ω is square: X = T Ω⁻¹
        products = np.linalg.solve(self.test.double().cpu().numpy().T, M).T if whole else self.products.cpu().numpy()
        Z = inverse_root(M).T @ products  # Z Zᵀ has the eigenvalues s²
        squares, P = np.linalg.eigh(Z @ Z.T)
        known = min(int(np.count_nonzero(squares > ROUNDING**2 * squares.sum())), self.rank)
        s = np.sqrt(squares[: -known - 1 : -1])
        U = (P[:, : -known - 1 : -1] / s).T @ Z  # orthonormal, up to what squares cost the weak ones
        V = solve_triangular(np.linalg.cholesky(U @ U.T), U, lower=True)
        return np.ascontiguousarray(V.T), s / self.scale


def _energy(X: Tensor) -> float:
    """Return the sum of squares: rows in their own precision, unless their squares overflow or vanish."""
    found = float(torch.linalg.vector_norm(X, dim=1).double().square().sum())
    if 1e-30 < found < math.inf:
        return found
    return float(X.double().square().sum())
