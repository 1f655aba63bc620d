"""The numbers that a model returns, to compare them before and after a trial step.

tensors, nested in tuples, lists, dicts       as they are; complex ones as pairs, sparse and nested ones as dense
other objects (dataclasses, distributions)    the numbers among their attributes
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from remanence.errors import InputError

CLOSED = (nn.Module, ModuleType, type, torch.dtype, torch.device)  # not part of an output, whatever refers to them


def float_outputs(output: object) -> list[Tensor]:
    """Return every floating-point number in the output of a model, as real dense tensors."""
    return list(_numbers(output, {}))


def checked_outputs(forward: Callable[[nn.Module, Any], object], model: nn.Module, batch: Any) -> list[Tensor]:
    """Return the numbers that a model returns for a batch; raise InputError if there are none to compare."""
    output = forward(model, batch)
    if not (found := float_outputs(output)):
        raise InputError(
            f"expected a model that returns floating-point numbers, which show whether they can be kept, got "
            f"{type(output).__name__}; pass forward=lambda model, batch: … that returns the outputs to protect. "
            "Nothing was absorbed"
        )
    return found


def _numbers(value: object, opened: dict[int, object]) -> Iterator[Tensor]:
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            yield from _dense(leaf.detach())
        elif not isinstance(leaf, CLOSED) and not callable(leaf) and id(leaf) not in opened:
            opened[id(leaf)] = leaf  # kept alive, so that no other object gets its id
            yield from _numbers(_attributes(leaf), opened)


def _attributes(thing: object) -> list[object]:
    """Return the values of an object's own attributes, also of those in slots."""
    slots = [name for kind in type(thing).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    return [*getattr(thing, "__dict__", {}).values(), *(getattr(thing, n) for n in slots if hasattr(thing, n))]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _dense(tensor: Tensor) -> Iterator[Tensor]:
    if tensor.is_nested:
        for part in tensor.unbind():
            yield from _dense(part)
    elif tensor.is_complex():
        yield from _dense(torch.view_as_real(tensor.to_dense().resolve_conj()))
    elif torch.is_floating_point(tensor):
        yield tensor if tensor.layout == torch.strided else tensor.to_dense()
