"""Linear layers by oneDNN's product while inputs are recorded: the same to rounding, and up to twice as fast.

Only recording uses it. A guard allows for the rounding of recorded inputs anyway, because other batch sizes and other
numbers of threads change it as much.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from remanence.deep.nn.thin_products import linear


class FastLinear(TorchFunctionMode):
    """Replaces `torch.nn.functional.linear` where nothing else takes part: no gradient, autocast or transform."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear and not kwargs and all(map(_is_plain, args)) and not _is_transformed():
            return linear(*args)
        return func(*args, **(kwargs or {}))


def _is_plain(found: Any) -> bool:
    """Return whether an argument is an ordinary float32 matrix in main memory, or missing."""
    ordinary = type(found) in (Tensor, nn.Parameter) and found.layout is torch.strided
    return found is None or (ordinary and found.dtype is torch.float32 and found.device.type == "cpu")


def _is_transformed() -> bool:
    transforms = torch._C._are_functorch_transforms_active()  # vmap, grad and so on
    return torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or transforms
