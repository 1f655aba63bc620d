"""Weights that no step shows: averaged copies, second weights of an optimizer, parameters without gradients.

The guard holds the parameters of its model. It cannot hold a copy of them, or what an optimizer keeps in its state and
puts into the parameters later, or what is written into a parameter that asks for no gradient: it can only say so where
it notices.
"""

import gc
import warnings
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from remanence.deep.nn.wrappers import unwrap

Optimizers = Iterable[torch.optim.Optimizer]


def is_schedule_free(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it is of the schedule-free kind, with train() and eval()."""
    return all(callable(getattr(optimizer, mode, None)) for mode in ("train", "eval"))


def warn_about_hidden_modes(optimizers: Optimizers) -> None:
    """When a block begins: optimizers with two sets of weights that do not show which one is in the parameters."""
    for optimizer in optimizers:
        if is_schedule_free(optimizer) and not any("train_mode" in group for group in optimizer.param_groups):
            warnings.warn(
                f"{_name(optimizer)} has train() and eval(), so it seems to keep a second set of weights; "
                f"{_ADVICE.format(_name(optimizer))}",
                UserWarning,
                stacklevel=5,
            )


def warn_about_train_mode(optimizers: Optimizers) -> None:
    """When a block ends: optimizers that would still put other weights into the parameters."""
    for optimizer in optimizers:
        if is_schedule_free(optimizer) and any(group.get("train_mode") for group in optimizer.param_groups):
            warnings.warn(
                f"{_name(optimizer)} is in train mode where the block ends, and its eval() will put other weights into "
                f"the model; {_ADVICE.format(_name(optimizer))}",
                UserWarning,
                stacklevel=4,
            )


_ADVICE = (
    "call {}.eval() inside the block, as its last line, so that those are put right too: what it switches to outside "
    "is not guarded, and old answers move with it"
)


def _name(optimizer: torch.optim.Optimizer) -> str:
    return type(optimizer).__name__


def warn_about_averages(model: nn.Module) -> None:
    """When a block begins: averaged copies of the model that hold other weights than those the memory was taken at.

    Averages of guarded weights alone answer as those do, because what a guard holds is linear in the weights.
    """
    kinds = {AveragedModel}
    for kind in list(kinds):
        kinds |= set(kind.__subclasses__())
    for average in [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]:
        if int(average.n_averaged) and _older(unwrap(average.module), model):
            warnings.warn(
                "an AveragedModel of a model like this one holds other weights than those the memory was taken at. If "
                "it averages this model, what it answers to old inputs moves as it follows, and no guard holds a copy: "
                "make a new one after absorb(), update it inside protect() only, and give it no new statistics by "
                "update_bn",
                UserWarning,
                stacklevel=5,
            )
            return


class UntrainedParameters:
    """Parameters that ask for no gradient, and so are not expected to move in a block: a teacher, a codebook."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.parameters = {n: p for n, p in parameters.items() if not p.requires_grad and p.grad is None}
        self.sums = {name: _bits(p) for name, p in self.parameters.items()}

    def finish(self) -> None:
        """When the block ends: say which of them were written to."""
        still = {n: p for n, p in self.parameters.items() if not p.requires_grad and p.grad is None}
        names = [name for name, p in still.items() if _bits(p) != self.sums[name]]
        if names:
            warnings.warn(
                f"{', '.join(names)} changed inside protect() and asks for no gradient (a copy that follows the model, "
                "a codebook): such a parameter is not put right, and old answers may have moved with it. Name it in "
                "frozen=(…) to hold it, or in free=(…) where they may",
                UserWarning,
                stacklevel=4,
            )


def _bits(tensor: Tensor) -> int:
    """A sum that changes with any number of the tensor, and with nothing else."""
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.dtype.itemsize)
    return 0 if whole is None else int(tensor.detach().view(whole).sum(dtype=torch.int64))


def _older(copy: nn.Module, model: nn.Module) -> bool:
    """Whether it is a copy of the model that has not caught up with it."""
    mine, theirs = dict(model.named_parameters()), dict(copy.named_parameters())
    shapes = [{name: p.shape for name, p in parameters.items()} for parameters in (mine, theirs)]
    if type(copy) is not type(model) or shapes[0] != shapes[1]:
        return False
    for name, p in mine.items():
        shift = float((theirs[name].detach().to(p) - p.detach()).abs().max()) if p.numel() else 0.0
        if not shift <= torch.finfo(p.dtype).eps ** 0.5 * float(p.detach().abs().max()):
            return True
    return False
