"""Call a model on a batch, with clear errors for batches that do not fit its signature, shapes or dtype."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from remanence.errors import InputError

Forward = Callable[[nn.Module, Any], Any]


def call_model(model: nn.Module, batch: Any) -> Any:
    """Call the model: a tensor is the input, a tuple or list the positional inputs, a dict the named ones."""
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
    """Return the model's output for a batch; raise InputError if the batch does not fit the model."""
    if forward is call_model:
        _check_arguments(model, batch)
    try:
        return forward(model, batch)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        _check_precision(model, batch, error)
        raise


def call_explained(model: nn.Module, batch: Any, forward: Forward) -> Any:
    """`call_checked`, with torch's errors about shapes, types and devices as InputError too."""
    try:
        return call_checked(model, batch, forward)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError) as error:
        if forward is not call_model or str(error).startswith("vmap"):  # a forward of the user's own may raise its own
            raise
        given = " and ".join(f"{t.dtype} {tuple(t.shape)}" for t in _tensors(batch))
        raise InputError(
            f"expected batches as {type(model).__name__} takes them, got {given} ({first_line(error)}); "
            "check their shape, dtype and device"
        ) from error


def _check_arguments(model: nn.Module, batch: Any) -> None:
    """Raise InputError if the model's forward does not accept these inputs."""
    args = tuple(batch) if isinstance(batch, tuple | list) else ()
    kwargs = dict(batch) if isinstance(batch, Mapping) else {}
    if not (args or kwargs):
        return
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # the signature is not available
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
            advice = "for a loader of (inputs, labels) pass (x for x, y in loader), or "
            advice = (advice if len(args) == 2 else "") + "pass forward=lambda model, batch: model(batch[0])"
        raise InputError(
            f"expected batches of what {type(model).__name__} takes ({takes}), got {got}; {advice}"
        ) from None


def _check_precision(model: nn.Module, batch: Any, error: RuntimeError) -> None:
    """Raise InputError if torch failed because the inputs have another dtype than the model."""
    wanted = {p.dtype for p in model.parameters() if p.is_floating_point()}
    got = {t.dtype for t in _tensors(batch) if t.is_floating_point()} - wanted
    if "type" in str(error) and wanted and got:
        names = [" or ".join(sorted(map(str, dtypes))) for dtypes in (wanted, got)]
        raise InputError(
            f"expected inputs of {names[0]}, as the model's parameters are, got {names[1]} ({first_line(error)}); "
            f"convert them by .to({names[0].split(' or ')[0]}), or the model"
        ) from error


def _tensors(batch: Any) -> list[Tensor]:
    leaves = tree_leaves(dict(batch) if isinstance(batch, Mapping) else batch)  # a BatchEncoding is a leaf otherwise
    return [t for t in leaves if isinstance(t, Tensor)]


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def check_batches(batches: Any) -> Iterable[Any]:
    """Return the batches if they are an iterable of batches, and not a single batch."""
    if isinstance(batches, Tensor | Mapping | str) or not isinstance(batches, Iterable):
        raise InputError(
            f"expected a list, a DataLoader or another iterable of batches, got {type(batches).__name__}; "
            "for a single batch pass [batch]"
        )
    return batches
