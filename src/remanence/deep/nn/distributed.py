"""Collective operations over the processes of a distributed training run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from remanence.errors import InputError


@contextmanager
def all_or_none(device: torch.device | None) -> Iterator[None]:
    """All processes of a distributed run do this or none does; where one fails, the others do not wait for it."""
    failure = None
    try:
        yield
    except Exception as error:
        failure = error
    fine = [] if device is None else all_gather(torch.tensor([failure is None], device="cpu").byte(), device)
    if failure is not None:
        raise failure
    if not all(bool(f) for f in fine):
        raise InputError("another process could not absorb its share, so nothing was absorbed here either; see there")


def all_gather(mine: Tensor, device: torch.device) -> list[Tensor]:
    """The same tensor of every process, in the order of their ranks; it travels on the model's device."""
    import torch.distributed as dist

    local = mine.to(device)
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local)
    return [part.cpu() for part in parts]


def any_process(mine: Tensor, device: torch.device) -> Tensor:
    """Which flags are set in any process."""
    return torch.stack(all_gather(mine.byte(), device)).amax(0).bool()


def broadcast_buffers(model: nn.Module) -> None:
    """Give every process the buffers of the first, as the next training pass of a distributed model would.

    After a step each process has the running statistics of its own last batch, and answers of its own.
    """
    import torch.distributed as dist

    for buffer in model.buffers():
        dist.broadcast(buffer, 0)
