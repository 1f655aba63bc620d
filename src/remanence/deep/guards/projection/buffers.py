"""Buffers of a model's own modules: which ones its answers read, and holding those while it trains.

A module may keep running statistics of its own, as a batch norm does, change them in training and answer with them.
What an answer reads is held from the `absorb` that saw it read; what is read only in training (a counter of steps, a
queue) is left alone, as is what `free` names. Such a module goes on training as it is written: unlike a batch norm it
cannot be told to train with the statistics it answers with, so the guard warns when it first puts one back.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

BufferLocation = tuple[nn.Module, str]  # the module a buffer is registered in, and its name there


def buffer_locations(model: nn.Module) -> dict[str, BufferLocation]:
    """Where every buffer of a model is found, by its full name, also when it is replaced by another tensor."""
    found: dict[str, BufferLocation] = {}
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                found[f"{prefix}.{name}" if prefix else name] = (module, name)
    return found


class _ReadTracker(dict[str, Tensor | None]):
    """A module's buffers, noting which of them are read."""

    def __init__(self, buffers: dict[str, Tensor | None]) -> None:
        super().__init__(buffers)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Tensor | None:
        self.read.add(name)
        return super().__getitem__(name)

    def items(self) -> Any:
        self.read |= self.keys()
        return super().items()

    def values(self) -> Any:
        self.read |= self.keys()
        return super().values()


@contextmanager
def record_buffer_reads(locations: Mapping[str, BufferLocation]) -> Iterator[set[str]]:
    """Fills a set with the names of the buffers that are read inside this block."""
    read: set[str] = set()
    plain = {module: module._buffers for module, _ in locations.values()}
    recording = {module: _ReadTracker(buffers) for module, buffers in plain.items()}
    try:
        for module in plain:
            vars(module)["_buffers"] = recording[module]
        yield read
    finally:
        for module, buffers in plain.items():
            buffers.clear()
            buffers.update(dict.items(recording[module]))
            vars(module)["_buffers"] = buffers
        read |= {name for name, (module, own) in locations.items() if own in recording[module].read}


def recording_reads(
    forward: Callable[..., Any], locations: Mapping[str, BufferLocation], read: set[str]
) -> Callable[..., Any]:
    """The same way to call a model, adding the buffers that its calls read to a set."""

    def call(model: nn.Module, batch: Any) -> Any:
        with record_buffer_reads(locations) as found:
            answer = forward(model, batch)
        read.update(found)
        return answer

    return call


class FrozenBuffer:
    """A buffer put back to the bit, whether it was written to or replaced by another tensor."""

    def __init__(self, name: str, location: BufferLocation, value: Tensor, warns: bool) -> None:
        self.name, self.location, self.value, self.warns = name, location, value, warns
        self.parameters: tuple[Tensor, ...] = ()
        self.by_layer = True
        self.last_seen: tuple[Tensor | None, int] = (None, -1)
        tensor = location[0]._buffers.get(location[1])
        # what differs already when a block begins was said then
        self.changed_before = (
            tensor is not None and tensor.shape == value.shape and not torch.equal(tensor, value.to(tensor))
        )

    def project_step(self) -> None:
        """Put it back if it was written to; a writer that hides from the version counter is found by `settle`."""
        tensor = self.location[0]._buffers.get(self.location[1])
        if tensor is not None and (tensor is not self.last_seen[0] or tensor._version != self.last_seen[1]):
            self._restore(tensor)

    def project_gradient(self) -> None:
        """A buffer has no gradient."""

    def finalize(self) -> None:
        tensor = self.location[0]._buffers.get(self.location[1])
        if tensor is not None:
            self._restore(tensor)

    def moved(self) -> bool:
        """Buffers speak for themselves, when they are put back."""
        return False

    @torch.no_grad()
    def _restore(self, tensor: Tensor) -> None:
        if tensor.shape != self.value.shape:
            self._warn(
                f"{self.name} changed its shape from {tuple(self.value.shape)} to {tuple(tensor.shape)} inside "
                "protect() and cannot be put back: old answers hold only if they do not depend on the change"
            )
        elif not torch.equal(tensor, self.value.to(tensor)):
            tensor.copy_(self.value)
            self._warn(
                f"{self.name} changed while the model trained inside protect(), and is put back after every step, "
                "because old answers were given with it: the model trains with a value that it does not answer with. "
                f"Name it in frozen=('{self.name}',) to hold it without this warning, or in free=(…) where old answers "
                "may move with it"
            )
        self.last_seen = (tensor, tensor._version)

    def _warn(self, what: str) -> None:
        if self.warns and not self.changed_before:
            self.warns = False  # once a block
            warnings.warn(what, UserWarning, stacklevel=2)
        self.changed_before = False


def changed_outside_message(names: list[str], consequence: str) -> str:
    """What to say of held buffers that are no longer what they were when a block or an `absorb` begins."""
    return (
        f"buffer{'s' if len(names) > 1 else ''} {', '.join(names)} changed outside protect(), and old answers may have "
        f"changed with it; {consequence}"
    )
