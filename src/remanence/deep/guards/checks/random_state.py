"""The state of torch's random number generators, to call a model several times with the same random numbers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn


class RandomState:
    """The state now of the generators that a model on its devices would use."""

    def __init__(self, model: nn.Module) -> None:
        devices = {p.device for p in model.parameters()} - {torch.device("cpu")}
        self.devices = [device for device in devices if hasattr(torch.get_device_module(device), "get_rng_state")]
        self.cpu = torch.get_rng_state()
        self.others = [torch.get_device_module(device).get_rng_state(device) for device in self.devices]

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """Begin at this state; the generators go on afterwards as if nothing had been drawn."""
        with ExitStack() as stack:
            for device in self.devices:
                stack.enter_context(torch.random.fork_rng([device], device_type=device.type))
            stack.enter_context(torch.random.fork_rng([]))
            torch.set_rng_state(self.cpu)
            for device, state in zip(self.devices, self.others, strict=True):
                torch.get_device_module(device).set_rng_state(state, device)
            yield
