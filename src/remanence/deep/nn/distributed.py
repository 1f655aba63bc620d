"""Collective operations over the processes of a distributed training run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from remanence.errors import InputError


@contextmanager
def all_or_none(
    device: torch.device | None,
    what: str = "failed to absorb its batches, so nothing was absorbed here either",
) -> Iterator[None]:
    """Make the block fail in all processes of a distributed run if it fails in one, so that none waits for another."""
    failure = None
    try:
        yield
    except Exception as error:
        failure = error
    fine = [] if device is None else all_gather(torch.tensor([failure is None], device="cpu").byte(), device)
    if failure is not None:
        raise failure
    if not all(bool(f) for f in fine):
        raise InputError(f"another process {what}; see its error")


def all_gather(mine: Tensor, device: torch.device) -> list[Tensor]:
    """Gather a tensor from every process, in rank order; it is sent from the model's device."""
    import torch.distributed as dist

    local = mine.to(device)
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local)
    return [part.cpu() for part in parts]


def any_process(mine: Tensor, device: torch.device) -> Tensor:
    """Return which flags are set in at least one process."""
    return torch.stack(all_gather(mine.byte(), device)).amax(0).bool()


def broadcast_buffers(model: nn.Module) -> None:
    """Copy the buffers of the first process to all others, as the next training forward pass of DDP would.

    After a step every process has the running statistics of its own last batch, and hence different outputs.
    """
    import torch.distributed as dist

    for buffer in model.buffers():
        dist.broadcast(buffer, 0)
