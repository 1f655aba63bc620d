"""The leading directions of many inputs of a wide layer from one pass of matrix products, without decompositions.

    T = X Ω                                   (Q2)   in float32, a random orthonormal Ω (d, l), l ≈ 1.5 rank
    Y = Σ xᵀ t,  M = Σ tᵀ t                   (Q3)   in float64
    C ≈ Y M⁺ Yᵀ = V s² Vᵀ                     (Q4)   Nyström's approximation of the Gram matrix C = XᵀX; cut to `rank`
    z = s Vᵀ Wᵀ                               (Q5)   the layer's outputs along them

(Q4) is Xᵀ P X for the projection P onto the columns of T, so it is from below whatever T is, and rounding T only means
another, equally random T. The sums need float64: C has the squares of the strengths, and float32 would lose directions
that are weaker than the strongest by 3e-4. A row costs 2 d l + l² multiplications, where a truncated singular value
decomposition of blocks of rows costs many times the layer's own. Up to l rows are kept as they are and decomposed at
the end, as in `lowrank_root.py`.

References: Tropp, Yurtsever, Udell and Cevher (2017), "Fixed-rank approximation of a positive-semidefinite matrix from
streaming data", NeurIPS.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.lowrank.lowrank_root import LowRankRoot
from remanence.deep.nn.thin_products import times
from remanence.memory.truncated_svd import Spectrum, no_spectrum

EPS = float(np.finfo(float).eps)
SCALE = 2.0**-32  # of T: no float32 inputs are so large that it overflows


class InputSketch:
    """Collects the inputs (n, d) of one matrix, in float64 on the device they are given on."""

    def __init__(self, inputs: int, rank: int) -> None:
        self.inputs, self.rank = inputs, min(rank, inputs)
        self.width = min(inputs, rank + rank // 2 + 16)
        self.pending: list[Tensor] = []
        self.count = 0  # rows in `pending`
        self.energy = 0.0
        self.products: Tensor | None = None  # Y (d, l)
        self.core: Tensor | None = None  # M (l, l)

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
        if self.products is None or self.core is None:
            self.products, self.core = X.new_zeros(self.inputs, self.width), X.new_zeros(self.width, self.width)
        T = X
        if self.width < self.inputs:
            T = times(X.float().mul_(SCALE), _test_matrix(self.inputs, self.width).to(X.device)).double()  # (Q2)
        self.products.addmm_(X.mT, T)  # (Q3)
        self.core.addmm_(T.mT, T)

    def root(self, W: Array) -> LowRankRoot:
        """Return the memory of all rows, with the outputs of a matrix W (c, d)."""
        empty = LowRankRoot(no_spectrum(self.inputs, len(W)), self.rank)
        if self.products is None:
            X = torch.cat(self.pending).cpu().numpy() if self.pending else np.zeros((0, self.inputs))
            return empty.folded(X, X @ W.T)
        if self.pending:
            self._multiply()
        V, s = self._leading()
        dropped = max(self.energy - float(s @ s), 0.0)
        return LowRankRoot(Spectrum(V, s, (W @ V * s).T, np.zeros(len(W)), dropped), self.rank)  # (Q5)

    def _leading(self) -> tuple[Array, Array]:
        """Return the basis (d, r) and the strengths of the strongest directions (Q4)."""
        assert self.products is not None and self.core is not None
        values, Q = np.linalg.eigh(self.core.cpu().numpy())
        used = values > 4 * EPS * values[-1]
        U, s, _ = np.linalg.svd(self.products.cpu().numpy() @ (Q[:, used] / np.sqrt(values[used])), full_matrices=False)
        known = min(int(np.count_nonzero(s * s > 16 * EPS * (s @ s))), self.rank)
        return np.ascontiguousarray(U[:, :known]), s[:known]


@lru_cache(maxsize=4)
def _test_matrix(inputs: int, width: int) -> Tensor:
    """Return Ω, the same for every layer of a width."""
    noise = torch.Generator("cpu").manual_seed(inputs)
    Q, _ = torch.linalg.qr(torch.randn(inputs, width, generator=noise, dtype=torch.float64, device="cpu"))
    whole: Tensor = Q.float().contiguous()
    return whole
