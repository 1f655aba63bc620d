"""One training epoch, with as little overhead as a hand-written loop.

    θ ← step(θ, ∇ loss(batch))      for batches of the rows in random order          (D1)

Every epoch has its own random numbers, derived from (seed, task, epoch): a resumed run draws the same numbers without
storing a generator state. The global generators are left unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remanence.deep.training.network import TaskData

SHUFFLED_AT_ONCE = 4096  # rows gathered at once: indexing every small batch would cost more than its step


def generator(*key: int) -> torch.Generator:
    """Return a random generator seeded by the key."""
    return torch.Generator().manual_seed(_seed(*key))


@contextmanager
def forked_rng(device: torch.device, *key: int) -> Iterator[None]:
    """Make random numbers inside this block (dropout) depend on the key only, and restore the global state."""
    cuda = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(_seed(*key))
        for index in cuda:
            with torch.cuda.device(index):
                torch.cuda.manual_seed(_seed(*key))
        yield


def train_epoch(
    optimizer: torch.optim.Optimizer,
    data: TaskData,
    batch_size: int,
    order: Tensor,
    advance: Callable[[int], None],
    after_step: Callable[[], None] | None = None,
) -> float:
    """Train on the data once in the given order (D1); return the mean loss of the rows, each before its step."""
    batch: tuple[Tensor, ...] = ()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = data.loss(*batch)
        torch.autograd.backward(loss)
        return loss

    losses: list[Tensor] = []
    at_once = max(SHUFFLED_AT_ONCE // batch_size, 1) * batch_size
    for places in torch.split(order, at_once):
        batches = zip(*(torch.split(part, batch_size) for part in data.rows(places)), strict=True)
        for batch in batches:  # noqa: B007 (the closure reads it)
            loss: Any = optimizer.step(closure)  # type: ignore[arg-type]  # torch's annotation expects a float
            losses.append(loss.detach())
            if after_step is not None:
                after_step()
        advance(-(-len(places) // batch_size))
    sizes = torch.full((len(losses),), batch_size, dtype=torch.float64)
    sizes[-1] = len(order) - batch_size * (len(losses) - 1)
    return float(torch.stack(losses).cpu().double() @ sizes) / len(order)


def trainable_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that require gradients."""
    return [p for p in model.parameters() if p.requires_grad]


def _seed(*key: int) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
