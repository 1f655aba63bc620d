"""Tensors as NumPy arrays and back, to the bit, and what tells one network from another; for files."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError

WIDTHS = {torch.bfloat16: torch.int16}  # kinds that NumPy has not got, as the bits of one that it has
KINDS = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


def to_array(tensor: Tensor) -> tuple[Array, str]:
    """The numbers of a tensor, and its kind."""
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in KINDS or tensor.layout != torch.strided:
        raise InputError(f"expected plain tensors of real numbers to store, got {tensor.dtype} ({tensor.layout})")
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype in WIDTHS:
        plain = plain.view(WIDTHS[plain.dtype])
    return plain.numpy(), kind


def to_tensor(array: Array, kind: str) -> Tensor:
    """The tensor that `to_array` took apart."""
    if kind not in KINDS:
        raise InputError(f"expected a kind of tensor among {', '.join(KINDS)}, got {kind!r:.40}")
    wanted = KINDS[kind]
    tensor = torch.from_numpy(array)
    if tensor.dtype != WIDTHS.get(wanted, wanted):
        raise InputError(f"expected numbers of a tensor of {kind}, got {array.dtype}")
    return tensor.view(wanted) if wanted in WIDTHS else tensor


def structure(model: Any) -> str:
    """What two networks of one build have in common: a hash of the names, shapes and kinds of all they hold."""
    if not isinstance(model, nn.Module):
        raise InputError(f"expected a torch module, got {type(model).__name__}; pass the network itself")
    parts = [f"{name}:{tuple(t.shape)}:{t.dtype}" for name, t in unwrap(model).state_dict().items()]
    return "network:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
