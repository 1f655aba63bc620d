"""What the online learners share: the door, the promise that a refused step changes nothing, and their files.

A learner holds settings, the network it moves, and a memory that is a value: `step` works out the new weights and the
new memory from the old ones, looks at both, and only then lets the network and itself have them. Memories are float64
on the CPU whatever the network is; its weights are rounded to its own precision after every step.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.flat_parameters import FlatParameters, as_batch
from remanence.deep.nn.saved_parts import SavedParts
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError, NumericalError
from remanence.validation import check_finite, check_numbers, quiet

WIDEST = 46_340  # LAPACK counts the entries of a matrix in 32 bits

M = TypeVar("M")


class OnlineLearner(ABC, Generic[M]):
    """A learner that moves a network's own weights, in place, batch by batch."""

    memory: M

    def __init__(self, model: torch.nn.Module, layers: Iterable[str] | None = None) -> None:
        self.model = unwrap(model)
        self.flat = FlatParameters(self.model, layers)

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings by name, as plain values."""

    @abstractmethod
    def _compute_step(self, x: Tensor, y: Any) -> tuple[Tensor, M, Array]:
        """θ and the memory after the batch, and the errors (n, c); changes nothing."""

    @abstractmethod
    def _memory_to_dict(self) -> dict[str, Any]:
        """The memory as arrays and plain numbers, by name."""

    @abstractmethod
    def _memory_from_dict(self, parts: SavedParts) -> M:
        """The memory out of what `_memory_to_dict` made of it."""

    @quiet
    def step(self, x: Any, y: Any) -> Tensor:
        """Learn a batch x (n, …), y (n, c); returns the errors y − f(x) before they were learned, (n, c)."""
        before = self.flat.vector()
        after, memory, errors = self._compute_step(as_batch(x, before), y)
        if not (torch.isfinite(after).all() and np.isfinite(errors).all()):
            raise NumericalError(
                "the weights overflowed and the batch was not learned; scale x and y to about 1, "
                "or use a larger ridge or noise"
            )
        self.flat.write(after)
        self.memory = memory
        return torch.from_numpy(errors).to(before)

    def state_dict(self) -> dict[str, Any]:
        """All that `step` goes by, apart from the network's own weights: plain values, and tensors in `memory`."""
        packed = self._memory_to_dict().items()
        return {
            "kind": type(self).__name__,
            "settings": self.settings,
            "parameters": {name: list(shape) for name, shape in self.flat.shapes.items()},
            "memory": {
                k: torch.from_numpy(np.array(v, order="C")) if isinstance(v, np.ndarray) else v for k, v in packed
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a learner of the same kind, settings and network stood; the network's weights come beside it."""
        mine = self.state_dict()
        if not isinstance(state, dict) or state.keys() != mine.keys():
            raise InputError(f"expected what state_dict returned, got {type(state).__name__}; save and load that")
        for word in ("kind", "settings", "parameters"):
            if state[word] != mine[word]:
                raise InputError(
                    f"expected a state with {word} {mine[word]}, got {state[word]}; begin a learner like the one saved"
                )
        self.memory = self._memory_from_dict(SavedParts(state["memory"]))

    def __repr__(self) -> str:
        words = ", ".join(f"{word}={_short(value)}" for word, value in self.settings.items())
        return f"{type(self).__name__}({type(self.model).__name__}: {self.flat.size} parameters, {words})"


def linearized(flat: FlatParameters, x: Tensor, at: Tensor | None = None) -> tuple[Array, Array]:
    """f(x) (n, c) and its Jacobians (n, c, D) in float64, refused where they are not finite."""
    outputs, J = map(to_float64, flat.linearized(x, at))
    check_outputs_finite(outputs, J)
    return outputs, J


def to_float64(tensor: Tensor) -> Array:
    """A tensor as a float64 array."""
    return np.asarray(tensor.detach().to(torch.float64).numpy(force=True))


def add_change(vector: Tensor, change: Array) -> Tensor:
    """θ + Δ, added in float64 and rounded once."""
    return (vector.to(torch.float64) + torch.from_numpy(change).to(vector.device)).to(vector.dtype)


def check_outputs_finite(*arrays: Array) -> None:
    """The network's own answers and derivatives must be finite to learn from them."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise NumericalError(
            "the network answers with NaN or infinity, or has such derivatives, on this batch, which was not learned; "
            "look at its weights, and scale x to about 1"
        )


def check_targets(y: Any, shape: tuple[int, ...]) -> Array:
    """y as float64 numbers, one row a sample and one column an output of the network."""
    targets = check_numbers(y.numpy(force=True) if isinstance(y, Tensor) else y, "y", np.float64)
    if targets.shape != shape:
        hint = "; for one output pass y[:, None]" if targets.ndim == 1 and shape[1] == 1 else ""
        raise InputError(f"expected y of shape {shape}, as the network answers, got {targets.shape}{hint}")
    check_finite(targets, "y")
    return targets


def check_width(features: int, hint: str) -> None:
    """Refuse a matrix over all pairs of parameters that could not be addressed, let alone held."""
    if features > WIDEST:
        raise InputError(f"expected at most {WIDEST} parameters for a matrix over all pairs, got {features}; {hint}")


def _short(value: Any) -> str:
    return f"{len(value)} numbers" if isinstance(value, list) else repr(value)
