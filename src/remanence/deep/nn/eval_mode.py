"""Context managers for running a model in eval mode, in full precision and with batch norms frozen."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import MethodType
from typing import Any

import torch
from torch import nn

AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Run the model in eval mode, without gradients and autocast; restore every module's own mode afterwards.

    Forward hooks must see every call, so compiled modules run eagerly and the fused attention path is switched off.
    """
    modes = {module: module.training for module in model.modules()}
    short_cuts = torch.backends.mha.get_fastpath_enabled()
    try:
        for module in modes:  # not model.eval(), which a module may override
            module.training = False
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad(), full_precision(), _own_forwards(modes), _uncompiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(short_cuts)
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def _own_forwards(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Take off the autocast that Accelerate puts around a prepared model's forward."""
    wrapped = {m: vars(m)["forward"] for m in modules if {"forward", "_original_forward"} <= vars(m).keys()}
    try:
        for module in wrapped:
            vars(module)["forward"] = vars(module)["_original_forward"]
        yield
    finally:
        for module, forward in wrapped.items():
            vars(module)["forward"] = forward


def _uncompiled() -> AbstractContextManager[Any]:
    """Run compiled modules eagerly. If the compiler was never imported (which takes seconds), there are none."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


@contextmanager
def full_precision() -> Iterator[None]:
    """Switch autocast off: it would round the protected values."""
    with ExitStack() as off:
        for kind in filter(torch.is_autocast_enabled, AUTOCAST_DEVICES):
            off.enter_context(torch.autocast(kind, enabled=False))
        yield


def frozen_batch_norms(norms: Iterable[nn.Module], hooks: ExitStack) -> None:
    """Make norms use their running statistics until the stack is closed, whatever train() or eval() is called.

    On exit each norm gets the mode that was last requested. (`train` is replaced on the instance, because a model that
    is already compiled would not see a hook.)
    """
    asked = {norm: norm.training for norm in norms}

    def train(norm: nn.Module, mode: bool = True) -> nn.Module:
        asked[norm] = mode
        return norm

    def restore(norm: nn.Module) -> None:
        del vars(norm)["train"]
        norm.training = asked[norm]

    for norm in asked:
        if "train" in vars(norm):  # already frozen by an enclosing block
            continue
        norm.training = False
        vars(norm)["train"] = MethodType(train, norm)
        hooks.callback(restore, norm)
