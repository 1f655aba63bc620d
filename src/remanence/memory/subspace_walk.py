"""The walk of ICL, OGD and ORFit: a step per sample, along what is new in it, past a hard memory.

    x̄ = x − U Uᵀx                      (K1)   what is new in x
    W ← W + g x̄ (y − xᵀW)              (K2)   g = 1/‖x̄‖² solves the sample; old answers do not move for any g
    U ← [U, x̄/‖x̄‖]                     (K3)

A sample whose x̄ is only rounding changes nothing: the past fixes its answer. All samples of a chunk are looked at
together and the loop runs over the new directions alone, so a long stream costs matrix products.
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.subspace import Subspace, effective_tolerance
from remanence.validation import check_result, quiet

CHUNK = 256


@quiet
def walk(
    W: Array, past: Subspace, X: Array, Y: Array, tolerance: float, steps: Array | None = None
) -> tuple[Array, Subspace, Array]:
    """The weights, the memory and the error of every sample before it was learned; `steps` are g, one per sample."""
    W, errors = W.copy(), np.empty_like(Y)
    tolerance = effective_tolerance(tolerance, W)
    for first in range(0, len(X), CHUNK):
        part = slice(first, first + CHUNK)
        given = None if steps is None else steps[part]
        past, errors[part] = _walk_chunk(W, past, X[part], Y[part], tolerance, given)
    check_result(W, errors)
    return W, past, errors


def _walk_chunk(
    W: Array, past: Subspace, X: Array, Y: Array, tolerance: float, steps: Array | None
) -> tuple[Subspace, Array]:
    """One chunk; W is changed in place."""
    errors = np.empty_like(Y)
    scale = np.abs(X).max(axis=1)  # lengths relative to the largest entry cannot overflow or vanish
    scale[scale == 0] = 1
    unit = X / scale[:, None]
    bound = tolerance * np.linalg.norm(unit, axis=1)
    rest = past.away(unit.T)  # (d, n)  (K1)
    new = np.zeros((past.features, 0), W.dtype)
    i = 0
    while i < len(X):
        full = past.rank + new.shape[1] >= past.features
        fresh = np.flatnonzero(np.linalg.norm(rest[:, i:], axis=0) > bound[i:])[: 0 if full else 1]
        j = i + int(fresh[0]) if len(fresh) else len(X)
        errors[i:j] = Y[i:j] - X[i:j] @ W
        if j == len(X):
            break
        v = past.away(rest[:, j])
        v = v - new @ (new.T @ v)
        length = float(np.linalg.norm(v))
        errors[j] = Y[j] - X[j] @ W
        if steps is None:
            W += np.outer(v / length, errors[j] / (length * scale[j]))  # (K2), in an order that cannot overflow early
        else:
            W += np.outer(v * scale[j], errors[j] * W.dtype.type(steps[j]))  # (K2)
        u = v / length
        u = past.away(u) - new @ (new.T @ u)
        u = (u / np.linalg.norm(u))[:, None]
        new = np.concatenate([new, u], axis=1)  # (K3)
        rest[:, j + 1 :] -= u @ (u.T @ rest[:, j + 1 :])
        i = j + 1
    return Subspace(np.concatenate([past.basis, new], axis=1)) if new.shape[1] else past, errors
