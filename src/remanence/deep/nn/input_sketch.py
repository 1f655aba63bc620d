"""The leading directions of many inputs of a wide layer from one pass of matrix products, without decompositions.

    Y = Σ xᵀ (x Ω)                    (Q2)   C Ω for the Gram matrix C = XᵀX, an orthonormal Ω (d, l), l ≈ 1.5 rank
    C ≈ Y (Ωᵀ Y)⁺ Yᵀ = V s² Vᵀ        (Q3)   Nyström's approximation, from below; cut to the `rank` strongest
    z = s Vᵀ Wᵀ                       (Q4)   the layer's outputs along them

A row costs 2 d l multiplications, where a truncated singular value decomposition of blocks of rows costs many times the
layer's own. The sums are in float64: C has the squares of the strengths, and float32 would lose directions that are
weaker than the strongest by 3e-4. Up to l rows are kept as they are and decomposed at the end, as in `lowrank_root.py`.

References: Tropp, Yurtsever, Udell and Cevher (2017), "Fixed-rank approximation of a positive-semidefinite matrix from
streaming data", NeurIPS.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.lowrank_root import LowRankRoot
from remanence.memory.truncated_svd import Spectrum, no_spectrum

EPS = float(np.finfo(float).eps)


class InputSketch:
    """Collects the inputs (n, d) of one matrix, in float64 on the device they are given on."""

    def __init__(self, inputs: int, rank: int) -> None:
        self.inputs, self.rank = inputs, min(rank, inputs)
        self.width = min(inputs, rank + rank // 2 + 16)
        self.pending: list[Tensor] = []
        self.count = 0  # rows in `pending`
        self.energy = 0.0
        self.products: Tensor | None = None  # Y (d, l)

    def fold(self, X: Tensor) -> None:
        """Add rows X (n, d)."""
        self.energy += float(X.square().sum())
        self.pending.append(X)
        self.count += len(X)
        if self.count > self.width:
            self._multiply()

    def _multiply(self) -> None:
        X = torch.cat(self.pending)
        self.pending, self.count = [], 0
        omega = _test_matrix(self.inputs, self.width).to(X.device)
        if self.products is None:
            self.products = torch.zeros_like(omega)
        self.products.addmm_(X.mT, X @ omega)  # (Q2)

    def root(self, W: Array) -> LowRankRoot:
        """Return the memory of all rows, with the outputs of a matrix W (c, d)."""
        empty = LowRankRoot(no_spectrum(self.inputs, len(W)), self.rank)
        if self.products is None:
            X = torch.cat(self.pending).cpu().numpy() if self.pending else np.zeros((0, self.inputs))
            return empty.folded(X, X @ W.T)
        if self.pending:
            self._multiply()
        V, s = self._leading(self.products.cpu().numpy())
        dropped = max(self.energy - float(s @ s), 0.0)
        return LowRankRoot(Spectrum(V, s, (W @ V * s).T, np.zeros(len(W)), dropped), self.rank)  # (Q4)

    def _leading(self, Y: Array) -> tuple[Array, Array]:
        """Return the basis (d, r) and the strengths of the strongest directions (Q3)."""
        omega = _test_matrix(self.inputs, self.width).numpy()
        shift = EPS * float(np.linalg.norm(Y))  # keeps the middle matrix positive; taken off again below
        Y = Y + shift * omega
        B = omega.T @ Y
        values, Q = np.linalg.eigh((B + B.T) / 2)
        used = values > 4 * EPS * values[-1]
        U, s, _ = np.linalg.svd(Y @ (Q[:, used] / np.sqrt(values[used])), full_matrices=False)
        strength = np.sqrt(np.maximum(s * s - shift, 0.0))[: self.rank]
        known = np.count_nonzero(strength * strength > 16 * shift)
        return np.ascontiguousarray(U[:, :known]), strength[:known]


@lru_cache(maxsize=4)
def _test_matrix(inputs: int, width: int) -> Tensor:
    """Return Ω, the same for every layer of a width."""
    if width == inputs:
        return torch.eye(inputs, dtype=torch.float64, device="cpu")
    noise = torch.Generator("cpu").manual_seed(inputs)
    Q, _ = torch.linalg.qr(torch.randn(inputs, width, generator=noise, dtype=torch.float64, device="cpu"))
    whole: Tensor = Q.contiguous()
    return whole
