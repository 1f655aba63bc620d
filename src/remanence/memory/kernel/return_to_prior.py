"""Changes of a Gaussian over the coefficients α of a kernel model, kept as the root R of its rows beside a prior.

The prior is λ‖Tα‖² with K = TᵀT: N(0, 1/λ) along every direction of length 1 in the space of the kernel.

Forgetting by β returns to the prior: covariance S ← βS + (1 − β)S₀, mean ← √β mean. In terms of the root, with G upper
triangular and GGᵀ = λI + (1 − β)(RT⁻¹)(RT⁻¹)ᵀ,

    [R z] ← √λ G⁻¹ [√β R  z]                                                                             (B1)

Dropping a sample leaves the marginal of the model on the span of the others: the direction that it alone spans gets its
part of the prior as a row, it is eliminated first, and the first row of the result is left out          (B2)
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root, empty, triangular_solver


def joint(root: Root, T: Array, ridge: float) -> Root:
    """The root of the rows and the prior."""
    c = root.shape[1]
    rows = Root(np.asfortranarray(np.sqrt(ridge) * T), np.zeros((len(T), c), root.dtype, "F"), np.zeros(c))
    return rows.merged(root, donate=True)


def returned(root: Root, T: Array, forget: float, ridge: float) -> Root:
    """The root after one step of forgetting (B1)."""
    m, trtrs = len(T), triangular_solver(root.dtype.char)
    if forget == 1 or not m:
        return root
    white = trtrs(T, np.asfortranarray(root.factor.T), trans=1)[0].T  # R T⁻¹
    # G = JFᵀJ for F of [√λ I; √(1−β) J whiteᵀ J], where J reverses the order: both blocks are upper triangular
    other = np.asfortranarray(np.sqrt(1 - forget) * white[::-1, ::-1].T)
    F = joint(Root(other, np.zeros((m, 1), order="F"), np.zeros(1)), np.eye(m), ridge).factor
    G = np.asfortranarray(np.triu(F)[::-1, ::-1].T)
    both = np.concatenate([np.sqrt(forget) * root.factor, root.target], axis=1)
    solved = np.sqrt(ridge) * trtrs(G, np.asfortranarray(both))[0]
    factor = np.asfortranarray(np.triu(solved[:, :m]).astype(root.dtype))
    return Root(factor, np.asfortranarray(solved[:, m:].astype(root.dtype)), root.rest * forget)


def marginal(root: Root, i: int, alone: Array, ridge: float) -> Root:
    """The root without coefficient i, whose sample spans the direction `alone` (m,) beside the others (B2)."""
    m, c = root.shape
    rows = np.zeros((m + 1, m), root.dtype)
    rows[0, 0], rows[1:, 0] = np.sqrt(ridge), root.factor @ alone
    rows[1:, 1:] = np.delete(root.factor, i, axis=1)
    whole = empty(m, c, root.dtype).folded(rows, np.concatenate([np.zeros((1, c), root.dtype), root.target]))
    kept = np.asfortranarray(whole.factor[1:, 1:]), np.asfortranarray(whole.target[1:])
    return Root(*kept, root.rest + whole.rest)
