"""The test matrix of a sketch, from the first rows: a power step where they lie, and columns that are equally large.

    V = orth(X₁ᵀ orth(X₁ Ω))                  (Q7)   one step of subspace iteration with the first rows X₁
    Ω ← Ω + 3 V                               (Q8)   random Ω: what later rows add is still seen in every column
    Ω ← Ω B,  Bᵀ (M₁ + δ I) B = I             (Q9)   M₁ = (X₁Ω)ᵀ X₁Ω, δ: what is weaker is rounding

(Q8) brings the energy that the sketch keeps closer to the best possible, if the first rows are like the later ones, and
costs nothing if they are not. (Q9) makes all columns of X₁Ω equally large.

References: Halko, Martinsson and Tropp (2011), "Finding structure with randomness", SIAM Review.
"""

from contextlib import suppress
from functools import lru_cache

import numpy as np
import torch
from scipy.linalg import solve_triangular
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.thin_products import times

EPS = float(torch.finfo(torch.float32).eps)
POWER = 3.0  # weight of (Q7)
COARSE = 64 * EPS  # a share of δ that the errors of float32 sums stay below
LEAST = 0.01  # of M, which is one at first and grows
SURE = 1e-3  # of a second moment: a Cholesky factor whose pivots stay above it has no direction near rounding


def starting_matrix(X: Tensor, width: int) -> Tensor:
    """Return Ω (d, l) in float32 for a sketch that begins with the rows X (n, d)."""
    if width == X.shape[1]:
        test = torch.eye(width, device=X.device)
    else:
        test = _random(X.shape[1], width).to(X.device)
        T = times(X, test)
        T = times(T, whitening(times(T.mT, T).double(), COARSE).float())
        V = times(T.mT, X)
        V = times(whitening(times(V, V.mT).double(), COARSE).float().mT, V)  # (Q7)
        test = test + POWER * V.mT  # (Q8)
    T = times(X, test).double()
    return times(test, whitening(T.mT @ T).float())  # (Q9)


def whitening(M: Tensor, share: float = 4 * EPS**2) -> Tensor:
    """Return a triangular B with Bᵀ (M + δ I) B = I; δ is a share of the trace, or more if M has larger errors."""
    eye = torch.eye(len(M), dtype=M.dtype, device=M.device)
    L, failed = torch.linalg.cholesky_ex(M + share * M.trace() * eye)
    if bool(failed):
        return whitening(M, 16 * share)
    inverse: Tensor = torch.linalg.solve_triangular(L, eye, upper=False)
    return inverse.mT


def inverse_root(M: Array) -> Array:
    """Return B with Bᵀ M B = I, or less where M is below `LEAST`: after (Q9) only errors of T are so small."""
    with suppress(np.linalg.LinAlgError):
        L = np.linalg.cholesky(M)
        if L.diagonal().min() ** 2 > max(LEAST, SURE * M.diagonal().max()):
            return np.asarray(solve_triangular(L, np.eye(len(M)), lower=True).T)
    values, Q = np.linalg.eigh(M)
    return np.asarray(Q / np.sqrt(np.maximum(values, max(LEAST, 16 * EPS * values[-1]))))


@lru_cache(maxsize=4)
def _random(inputs: int, width: int) -> Tensor:
    """Return orthonormal columns, the same for every layer of a width."""
    noise = torch.Generator("cpu").manual_seed(inputs)
    Q, _ = torch.linalg.qr(torch.randn(inputs, width, generator=noise, dtype=torch.float64, device="cpu"))
    whole: Tensor = Q.float().contiguous()
    return whole
