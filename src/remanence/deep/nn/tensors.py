"""Convert tensors to NumPy arrays and back without loss, and hash a network's structure; used for model files."""

from typing import Any

import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError
from remanence.hashing import new_digest, short

VIEWED_AS = {torch.bfloat16: torch.int16}  # dtypes that NumPy lacks, stored as the bits of one it has
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
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
    """Return the values of a tensor as an array, and the name of its dtype."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES or tensor.layout != torch.strided:
        raise InputError(f"expected dense tensors of real numbers to store, got {tensor.dtype} ({tensor.layout})")
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype in VIEWED_AS:
        plain = plain.view(VIEWED_AS[plain.dtype])
    return plain.numpy(), dtype


def as_numbers(value: Any) -> Any:
    """Return a tensor as an array in a dtype that NumPy has, and anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    if value.is_meta or value.layout != torch.strided:
        raise InputError(f"expected dense numbers in memory, got a tensor on {value.device} ({value.layout})")
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy(force=True)


def to_tensor(array: Array, dtype: str) -> Tensor:
    """Return the tensor that `to_array` converted."""
    if dtype not in DTYPES:
        raise InputError(f"expected a tensor dtype among {', '.join(DTYPES)}, got {dtype!r:.40}")
    wanted = DTYPES[dtype]
    tensor = torch.from_numpy(array)
    if tensor.dtype != VIEWED_AS.get(wanted, wanted):
        raise InputError(f"expected the array of a {dtype} tensor, got {array.dtype}")
    return tensor.view(wanted) if wanted in VIEWED_AS else tensor


def structure(model: Any) -> str:
    """Return a hash of the names, shapes and dtypes of a network's parameters and buffers."""
    if not isinstance(model, nn.Module):
        raise InputError(f"expected a torch module, got {type(model).__name__}; pass the network itself")
    parts = [f"{name}:{tuple(t.shape)}:{t.dtype}" for name, t in unwrap(model).state_dict().items()]
    return "network:" + short(new_digest("\n".join(parts)))
