"""A truncated singular value decomposition with sparse rows added, through products that stay sparse.

    A = B Vᵀ + RᵀQᵀ,   B = A V,   RᵀR = A Aᵀ − B Bᵀ,   Q = (Aᵀ − V Bᵀ) R⁻¹                                 (SA1)
    [diag(s) 0; B Rᵀ] = P diag(s') [M N],   V' = V Mᵀ + Q Nᵀ = V (Mᵀ − Bᵀ R⁻¹Nᵀ) + Aᵀ R⁻¹Nᵀ               (SA2)

Q is never formed. Its columns are orthonormal to rounding times the square of the condition number of R, which shows in
V'ᵀV' = CᵀC: what little C differs from I is decomposed again; where it is more than that, `None` is returned, and the
rows have to be made dense.
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.sparse.sparse_rows import SparseRows

ROUNDED, LARGEST = 64, 1e5  # times eps: how far V'ᵀV' may be from I, as it is and after another decomposition

Cut = tuple[Array, Array, Array, float]  # basis (d, r), strengths (r,), rotation P (n', r), energy that was cut off


def absorbed_sparse(V: Array, s: Array, A: SparseRows, rank: int) -> Cut | None:
    """The decomposition of [diag(s)Vᵀ; A], cut to `rank`; None where that would lose digits."""
    from scipy.linalg import solve_triangular

    inside, k = A @ V, len(s)
    try:
        L = np.linalg.cholesky(A.gram() - inside @ inside.T)  # Rᵀ
    except np.linalg.LinAlgError:
        return None
    small = np.zeros((k + len(A), k + len(A)), V.dtype)
    small[:k, :k] = np.diag(s)
    small[k:, :k], small[k:, k:] = inside, L
    P, strength, rotation = np.linalg.svd(small)
    rank = min(rank, significant(strength, V.shape[0], len(small)))
    M = solve_triangular(L, rotation[:rank, k:].T, lower=True, trans=1)  # R⁻¹Nᵀ
    basis = V @ (rotation[:rank, :k].T - inside.T @ M)
    basis += A.transposed_product(M)  # (SA2)
    lost, P, strength, gram = energy(strength[rank:]), P[:, :rank], strength[:rank], basis.T @ basis
    off, eps = float(np.abs(gram - np.eye(rank, dtype=gram.dtype)).max(initial=0.0)), float(np.finfo(V.dtype).eps)
    if not off <= LARGEST * eps:  # (NaN too)
        return None
    if off > ROUNDED * eps:
        C = np.linalg.cholesky(gram).T  # basis = V″C
        inner, strength, turn = np.linalg.svd(strength[:, None] * C.T)
        basis, P = basis @ solve_triangular(C, turn.T), P @ inner
    return basis, strength, P, lost


def energy(strength: Array) -> float:
    """The sum of the squares of strengths, in float64."""
    return float(strength.astype(np.float64) @ strength.astype(np.float64))


def significant(strength: Array, features: int, rows: int) -> int:
    """How many strengths are more than rounding: rows that bring nothing new add no direction."""
    rounding = max(features, rows) * float(np.finfo(strength.dtype).eps) * strength.max(initial=0.0)
    return int((strength > rounding).sum())


def eliminated_sparse(border: Array, A: SparseRows, Y: Array) -> tuple[Array, SparseRows, Array]:
    """`eliminated` of truncated_svd.py with one leading feature, which only the dense part of the rows has."""
    d = A.shape[1]
    column = np.append(border[0, 0], A.left @ A.right[:, 0])
    column[0] += np.copysign(np.linalg.norm(column), column[0])
    square = column @ column
    if not square > 0:
        return border, A, Y
    own, below = column[0], column[1:]
    mixed = own * border[0]
    mixed[:d] += A.transposed_product(below[:, None])[:, 0]
    mixed[d:] += below @ Y
    mixed *= 2 / square
    right = np.concatenate([A.right, mixed[None, :d]])
    right[:, 0] = 0
    rows = SparseRows(A.sparse, np.concatenate([A.left, -below[:, None]], axis=1), right)
    return border - own * mixed[None], rows, Y - np.outer(below, mixed[d:])
