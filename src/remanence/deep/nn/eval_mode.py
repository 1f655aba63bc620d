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
    """The model as it answers: eval mode, no gradients, its own precision; every module's own mode comes back.

    Hooks must see every call, so compiled parts run as they are written and transformers take no short cut.
    """
    modes = {module: module.training for module in model.modules()}
    short_cuts = torch.backends.mha.get_fastpath_enabled()
    try:
        for module in modes:  # not model.eval(): a module may do more than that there
            module.training = False
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad(), full_precision(), _uncompiled():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(short_cuts)
        for module, mode in modes.items():
            module.training = mode


def _uncompiled() -> AbstractContextManager[Any]:
    """Compiled parts run as they are written; without the compiler, seconds to import, there are none."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


@contextmanager
def full_precision() -> Iterator[None]:
    """No autocast: what is held would be rounded to it."""
    with ExitStack() as off:
        for kind in filter(torch.is_autocast_enabled, AUTOCAST_DEVICES):
            off.enter_context(torch.autocast(kind, enabled=False))
        yield


def frozen_batch_norms(norms: Iterable[nn.Module], hooks: ExitStack) -> None:
    """Norms answer with their running statistics until the stack is left, whatever train() and eval() are called.

    Then each gets the mode that was asked of it last. (A hook would not be seen by a model compiled before.)
    """
    asked = {norm: norm.training for norm in norms}

    def train(norm: nn.Module, mode: bool = True) -> nn.Module:
        asked[norm] = mode
        return norm

    def restore(norm: nn.Module) -> None:
        del vars(norm)["train"]
        norm.training = asked[norm]

    for norm in asked:
        if "train" in vars(norm):  # held by a block around this one
            continue
        norm.training = False
        vars(norm)["train"] = MethodType(train, norm)
        hooks.callback(restore, norm)
