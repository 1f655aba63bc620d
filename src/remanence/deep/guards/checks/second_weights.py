"""Warnings about weights outside a guard's control: averaged copies, a second set of weights in an optimizer.

A guard protects the parameters of its model. It cannot protect a copy of them, weights that an optimizer keeps in its
state and writes into the parameters later, or values written into a parameter that does not require gradients. It warns
where it can detect these.
"""

import gc
import warnings
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from remanence.deep.nn.sharding.shards import local
from remanence.deep.nn.wrappers import unwrap

Optimizers = Iterable[torch.optim.Optimizer]


def is_schedule_free(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether the optimizer is schedule-free, that is, has train() and eval()."""
    return all(callable(getattr(optimizer, mode, None)) for mode in ("train", "eval"))


def warn_about_hidden_modes(optimizers: Optimizers) -> None:
    """At the start of a block, warn about optimizers with two sets of weights that do not show which one is active."""
    for optimizer in optimizers:
        if is_schedule_free(optimizer) and not any("train_mode" in group for group in optimizer.param_groups):
            warnings.warn(
                f"{_name(optimizer)} has train() and eval(), so it seems to keep a second set of weights; "
                f"{_ADVICE.format(_name(optimizer))}",
                UserWarning,
                stacklevel=5,
            )


def warn_about_train_mode(optimizers: Optimizers) -> None:
    """At the end of a block, warn about optimizers that would still write other weights into the parameters."""
    for optimizer in optimizers:
        if is_schedule_free(optimizer) and any(group.get("train_mode") for group in optimizer.param_groups):
            warnings.warn(
                f"{_name(optimizer)} is in train mode at the end of the block, and its eval() will put other weights "
                f"into the model; {_ADVICE.format(_name(optimizer))}",
                UserWarning,
                stacklevel=4,
            )


_ADVICE = (
    "call {}.eval() as the last line of the block, so that those weights are projected too: weights it switches to "
    "outside are not guarded, and outputs on earlier inputs change with them"
)


def _name(optimizer: torch.optim.Optimizer) -> str:
    return type(optimizer).__name__


def warn_about_averages(model: nn.Module) -> None:
    """At the start of a block, warn about averaged copies of the model that contain weights from before the last
    absorb.

    Averages of guarded weights alone have the same outputs, because what a guard protects is linear in the weights.
    """
    kinds = {AveragedModel}
    for kind in list(kinds):
        kinds |= set(kind.__subclasses__())
    for average in [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]:
        if int(average.n_averaged) and _older(unwrap(average.module), model):
            warnings.warn(
                "an AveragedModel of a model like this one has other weights than those at the last absorb(). If it "
                "averages this model, its outputs on earlier inputs will change, because a guard does not protect "
                "copies: create a new one after absorb(), update it inside protect() only, and do not use update_bn",
                UserWarning,
                stacklevel=5,
            )
            return


class UntrainedParameters:
    """Parameters that do not require gradients and should not change in a block, such as a teacher or a codebook."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.parameters = {n: p for n, p in parameters.items() if not p.requires_grad and p.grad is None}
        self.sums = {name: _bits(p) for name, p in self.parameters.items()}

    def finish(self) -> None:
        """When the block ends, warn about those that were written to."""
        still = {n: p for n, p in self.parameters.items() if not p.requires_grad and p.grad is None}
        names = [name for name, p in still.items() if _bits(p) != self.sums[name]]
        if names:
            warnings.warn(
                f"{', '.join(names)} changed inside protect() and does not require gradients (a copy that follows the "
                "model, a codebook): such a parameter is not restored, and outputs on earlier inputs may have changed "
                "with it. Name it in frozen=(…) to freeze it, or in free=(…) if they may change",
                UserWarning,
                stacklevel=4,
            )


def _bits(tensor: Tensor) -> int:
    """Return a checksum of the tensor's bits."""
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.dtype.itemsize)
    return 0 if whole is None else int(local(tensor).detach().view(whole).sum(dtype=torch.int64))


def _older(copy: nn.Module, model: nn.Module) -> bool:
    """Return whether `copy` is a copy of the model with other weights."""
    mine, theirs = dict(model.named_parameters()), dict(copy.named_parameters())
    shapes = [{name: p.shape for name, p in parameters.items()} for parameters in (mine, theirs)]
    if type(copy) is not type(model) or shapes[0] != shapes[1]:
        return False
    for name in mine:
        p, other = local(mine[name]).detach(), local(theirs[name]).detach()
        if p.numel() and p.shape == other.shape:
            shift = float((other.to(p) - p).abs().max())
            if not shift <= torch.finfo(p.dtype).eps ** 0.5 * float(p.abs().max()):
                return True
    return False
