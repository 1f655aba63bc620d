"""How a model is called on a batch, and what is said where a batch does not fit it."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from remanence.errors import InputError

Forward = Callable[[nn.Module, Any], Any]


def call_model(model: nn.Module, batch: Any) -> Any:
    """A tensor is the input, a tuple or list the positional inputs, a dict the named ones."""
    if isinstance(batch, Tensor):
        return model(batch)
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    raise InputError(
        f"expected batches of tensors, tuples or dicts of inputs, got {type(batch).__name__}; "
        "for anything else pass forward=lambda model, batch: …"
    )


def call_checked(model: nn.Module, batch: Any, forward: Forward) -> Any:
    """What the model answers to a batch; a batch that does not fit its call is refused in words."""
    if forward is call_model:
        _check_arguments(model, batch)
    try:
        return forward(model, batch)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        _check_precision(model, batch, error)
        raise


def _check_arguments(model: nn.Module, batch: Any) -> None:
    """Refuse inputs that the model's forward does not take, before it is called."""
    args = tuple(batch) if isinstance(batch, tuple | list) else ()
    kwargs = dict(batch) if isinstance(batch, Mapping) else {}
    if not (args or kwargs):
        return
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # it does not tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        takes = ", ".join(signature.parameters)
        if kwargs:
            got = f"a dict of {', '.join(map(repr, kwargs))}"
            advice = "leave the labels out, or pass forward=lambda model, batch: … with the inputs of a batch"
        else:
            got = f"batches of {len(args)} positional inputs"
            advice = "of a loader of (inputs, labels) pass (x for x, y in loader), or "
            advice = (advice if len(args) == 2 else "") + "pass forward=lambda model, batch: model(batch[0])"
        raise InputError(
            f"expected batches of what {type(model).__name__} takes ({takes}), got {got}; {advice}"
        ) from None


def _check_precision(model: nn.Module, batch: Any, error: RuntimeError) -> None:
    """Say it in words where torch refused inputs of another precision than the model's."""
    wanted = {p.dtype for p in model.parameters() if p.is_floating_point()}
    got = {t.dtype for t in tree_leaves(batch) if isinstance(t, Tensor) and t.is_floating_point()} - wanted
    if "type" in str(error) and wanted and got:
        names = [" or ".join(sorted(map(str, kinds))) for kinds in (wanted, got)]
        raise InputError(
            f"expected inputs of {names[0]}, as the model's parameters are, got {names[1]} ({first_line(error)}); "
            f"convert them by .to({names[0].split(' or ')[0]}), or the model"
        ) from error


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def check_batches(batches: Any) -> Iterable[Any]:
    """Something to take batches from, and not one batch that would come apart into rows."""
    if isinstance(batches, Tensor | Mapping | str) or not isinstance(batches, Iterable):
        raise InputError(
            f"expected a list, a DataLoader or another iterable of batches, got {type(batches).__name__}; "
            "for a single batch pass [batch]"
        )
    return batches
