"""Run a block of code on the whole parameters of a model that FSDP2 has split over processes.

Each process gathers all parameters once; until the end of the block the model is an ordinary one, and its calls do not
communicate. So processes may have different numbers of batches, or fail, without one waiting for another. The shards
are as before afterwards: what a block wants to change it writes into them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import MethodType
from typing import Any

from torch import Tensor, nn

from remanence.deep.nn.sharding.shards import gathered, is_shard, reshard, sharded_modules


@contextmanager
def whole_parameters(model: nn.Module) -> Iterator[dict[Tensor, Tensor]]:
    """Give a model its whole parameters for a block; yield the shards by whole parameter, none for an ordinary model.

    All processes have to enter the block together.
    """
    if not sharded_modules(model):
        yield {}
        return
    reshard(model)
    places = [(m, name, p) for m in model.modules() for name, p in m._parameters.items() if p is not None]
    shards = dict.fromkeys(p for *_, p in places if is_shard(p))  # tied parameters once
    whole: dict[Tensor, nn.Parameter] = {p: nn.Parameter(gathered(p), p.requires_grad) for p in shards}
    with ExitStack() as undo:
        _suspend_gathering(model, undo)
        for module, name, p in places:
            if p in whole:
                undo.callback(setattr, module, name, p)
                setattr(module, name, whole[p])
        yield {own: p for p, own in whole.items()}


def _suspend_gathering(model: nn.Module, undo: ExitStack) -> None:
    """Take off the hooks that gather and convert parameters around calls, until the stack is closed."""
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            if any(map(_is_fsdp, hooks.values())):
                before = dict(hooks)
                undo.callback(_put_back, hooks, before)
                for key in [key for key, hook in before.items() if _is_fsdp(hook)]:
                    del hooks[key]
        for name, method in list(vars(module).items()):
            if isinstance(method, MethodType) and _is_fsdp(method):  # (`register_fsdp_forward_method`)
                vars(module)[name] = vars(method.__func__)["__wrapped__"]
                undo.callback(vars(module).__setitem__, name, method)


def _put_back(hooks: Any, before: dict[Any, Any]) -> None:
    """Restore hooks in their order; those that were added meanwhile come last."""
    added = {key: hook for key, hook in hooks.items() if key not in before}
    removed = {key for key, hook in before.items() if key not in hooks and not _is_fsdp(hook)}
    hooks.clear()
    hooks.update({key: hook for key, hook in before.items() if key not in removed} | added)


def _is_fsdp(function: Callable[..., Any]) -> bool:
    """Return whether a function is one of FSDP2, or was wrapped by it."""
    function = getattr(function, "__func__", function)
    places = (getattr(function, "__module__", ""), getattr(function, "__globals__", {}).get("__name__", ""))
    return any(str(place).startswith("torch.distributed.fsdp.") for place in places)
