"""Products of a weight matrix with a thin matrix, which are nearly all that a guarded step and recording cost.

oneDNN multiplies float32 matrices of this shape up to twice as fast as the BLAS that torch calls (measured on a
processor of AMD). Which of the two is used depends on dtype, device and size only, so that a training run can be
repeated to the bit.
"""

import torch
from torch import Tensor

WORTHWHILE = 2**20  # multiplications: below this the call itself costs more than it saves
THINNEST = 16  # columns: a thinner update is faster in place

_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch._C._has_mkldnn else None


def times(A: Tensor, B: Tensor) -> Tensor:
    """Return A B for two matrices, or for one pair per group."""
    if _fast(A, B):
        return _ONEDNN(A, B.mT, None, "none", [], "")  # type: ignore[misc, no-any-return]
    return A @ B


def linear(X: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """Return X Wᵀ + b for float32 inputs X (…, d)."""
    rows = X.reshape(-1, X.shape[-1]) if X.dim() else X
    if W.dim() == 2 and W.shape[1] == X.shape[-1] and _fast(rows, W.mT):
        found: Tensor = _ONEDNN(rows, W, b, "none", [], "")  # type: ignore[misc]
        return found.reshape(*X.shape[:-1], len(W))
    return torch.nn.functional.linear(X, W, b)


def subtract_product(W: Tensor, A: Tensor, B: Tensor) -> None:
    """Subtract A B from W in place; either matrices or one per group."""
    if A.shape[-1] >= THINNEST and _fast(A, B):
        W.sub_(_ONEDNN(A, B.mT, None, "none", [], ""))  # type: ignore[misc]
    elif W.dim() == 2:
        W.addmm_(A, B, alpha=-1)
    else:
        W.baddbmm_(A, B, alpha=-1)


def _fast(A: Tensor, B: Tensor) -> bool:
    return (
        _ONEDNN is not None
        and A.dtype is torch.float32
        and A.dim() == 2
        and A.numel() * B.shape[1] >= WORTHWHILE
        and A.device.type == "cpu"
        and not torch.compiler.is_compiling()
    )
