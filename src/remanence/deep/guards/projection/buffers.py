"""Buffers of a model's own modules: which of them the outputs depend on, and freezing those during training.

A module may keep running statistics like a batch norm, update them in training and use them in its forward pass. A
buffer that a forward pass in eval mode reads is frozen from the `absorb` that saw it; buffers that are read only in
training (a step counter, a queue) are left alone, as are those named in `free`. Unlike a batch norm such a module
cannot be made to train with the frozen statistics, so the guard warns when it first restores a buffer.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

BufferLocation = tuple[nn.Module, str]  # the module a buffer is registered in, and its name there


def buffer_locations(model: nn.Module) -> dict[str, BufferLocation]:
    """Return the module and attribute name of every buffer, by full name; valid also if the buffer is replaced."""
    found: dict[str, BufferLocation] = {}
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                found[f"{prefix}.{name}" if prefix else name] = (module, name)
    return found


class _ReadTracker(dict[str, Tensor | None]):
    """A module's dict of buffers that records which of them are read."""

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
    """Collect the names of the buffers that are read inside this block."""
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
    """Wrap a forward function so that the buffers its calls read are added to a set."""

    def call(model: nn.Module, batch: Any) -> Any:
        with record_buffer_reads(locations) as found:
            output = forward(model, batch)
        read.update(found)
        return output

    return call


class FrozenBuffer:
    """Restores a buffer to its exact value, whether it was written to or replaced by another tensor."""

    def __init__(self, name: str, location: BufferLocation, value: Tensor, warns: bool) -> None:
        self.name, self.location, self.value, self.warns = name, location, value, warns
        self.parameters: tuple[Tensor, ...] = ()
        self.by_layer = True
        self.last_seen: tuple[Tensor | None, int] = (None, -1)
        tensor = location[0]._buffers.get(location[1])
        # a buffer that differs when the block begins was reported then
        self.changed_before = (
            tensor is not None and tensor.shape == value.shape and not torch.equal(tensor, value.to(tensor))
        )

    def project_step(self) -> None:
        """Restore the buffer if its version counter changed; `finalize` also finds writes that do not change it."""
        tensor = self.location[0]._buffers.get(self.location[1])
        if tensor is not None and (tensor is not self.last_seen[0] or tensor._version != self.last_seen[1]):
            self._restore(tensor)

    def project_gradient(self) -> None:
        """Do nothing: a buffer has no gradient."""

    def finalize(self) -> None:
        """Restore the buffer whether or not its version counter changed."""
        tensor = self.location[0]._buffers.get(self.location[1])
        if tensor is not None:
            self._restore(tensor)

    def moved(self) -> bool:
        """Return False: buffers warn by themselves when they are restored."""
        return False

    @torch.no_grad()
    def _restore(self, tensor: Tensor) -> None:
        if tensor.shape != self.value.shape:
            self._warn(
                f"{self.name} changed its shape from {tuple(self.value.shape)} to {tuple(tensor.shape)} inside "
                "protect() and cannot be restored: earlier outputs are kept only if they do not depend on it"
            )
        elif not torch.equal(tensor, self.value.to(tensor)):
            tensor.copy_(self.value)
            self._warn(
                f"{self.name} changed while the model trained inside protect(), and is restored after every step, "
                "because earlier outputs depend on it: the model trains with another value than it predicts with. "
                f"Name it in frozen=('{self.name}',) to freeze it without this warning, or in free=(…) if earlier "
                "outputs may change with it"
            )
        self.last_seen = (tensor, tensor._version)

    def _warn(self, what: str) -> None:
        if self.warns and not self.changed_before:
            self.warns = False  # once per block
            warnings.warn(what, UserWarning, stacklevel=2)
        self.changed_before = False


def changed_outside_message(names: list[str], consequence: str) -> str:
    """Return the warning for frozen buffers that have changed before a block or an `absorb` begins."""
    return (
        f"buffer{'s' if len(names) > 1 else ''} {', '.join(names)} changed outside protect(), and earlier outputs may "
        f"have changed with it; {consequence}"
    )
