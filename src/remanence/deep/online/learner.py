"""Base class of the online learners: input checks, all-or-nothing steps, saving and loading.

A learner has settings, the network it updates, and an immutable memory: `step` computes the new weights and the new
memory from the old ones, checks both, and only then replaces them. Memories are float64 on the CPU whatever the
network's dtype; its weights are rounded to that dtype after every step.
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
from remanence.deep.nn.tensors import as_numbers
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError, NumericalError
from remanence.validation import check_finite, check_numbers, quiet

WIDEST = 46_340  # LAPACK indexes the entries of a matrix with 32 bits

M = TypeVar("M")


class OnlineLearner(ABC, Generic[M]):
    """Updates a network's weights, in place, one batch at a time."""

    linear = False  # (no linear model of rows: `rm.list_methods` says that of everything)
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
        """Return θ and the memory after the batch, and the errors (n, c); change nothing."""

    @abstractmethod
    def _memory_to_dict(self) -> dict[str, Any]:
        """Return the memory as arrays and plain numbers, by name."""

    @abstractmethod
    def _memory_from_dict(self, parts: SavedParts) -> M:
        """Return the memory that `_memory_to_dict` converted."""

    @quiet
    def step(self, x: Any, y: Any) -> Tensor:
        """Learn one batch.

        Parameters
        ----------
        x : tensor or array of shape (n, …)
            Inputs.
        y : tensor or array of shape (n, c)
            Targets.

        Returns
        -------
        Tensor of shape (n, c)
            The errors y − f(x) before the batch was learned.
        """
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
        """Return everything a step depends on except the network's weights: plain values, and tensors in `memory`."""
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
        """Restore the state of a learner with the same class, settings and network.

        The network's weights are loaded separately.
        """
        own = self.state_dict()
        if not isinstance(state, dict) or state.keys() != own.keys():
            raise InputError(f"expected a dict returned by state_dict, got {type(state).__name__}")
        for key in ("kind", "settings", "parameters"):
            if state[key] != own[key]:
                raise InputError(
                    f"expected a state with {key} {own[key]}, got {state[key]}; create a learner like the saved one"
                )
        self.memory = self._memory_from_dict(SavedParts(state["memory"]))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={_short(value)}" for name, value in self.settings.items())
        return f"{type(self).__name__}({type(self.model).__name__}: {self.flat.size} parameters, {settings})"


def linearized(flat: FlatParameters, x: Tensor, at: Tensor | None = None) -> tuple[Array, Array]:
    """Return f(x) (n, c) and its Jacobians (n, c, D) in float64; raise NumericalError if they are not finite."""
    outputs, J = map(to_float64, flat.linearized(x, at))
    check_outputs_finite(outputs, J)
    return outputs, J


def to_float64(tensor: Tensor) -> Array:
    """Return a tensor as a float64 array."""
    return np.asarray(tensor.detach().to(torch.float64).numpy(force=True))


def add_change(vector: Tensor, change: Array) -> Tensor:
    """Return θ + Δ, added in float64 and rounded once."""
    return (vector.to(torch.float64) + torch.from_numpy(change).to(vector.device)).to(vector.dtype)


def check_outputs_finite(*arrays: Array) -> None:
    """Raise NumericalError if the network's outputs or derivatives are not finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise NumericalError(
            "the network's outputs or derivatives on this batch contain NaN or infinity, so it was not learned; "
            "check the weights, and scale x to about 1"
        )


def check_targets(y: Any, shape: tuple[int, ...]) -> Array:
    """Return y as float64 numbers, one row per sample and one column per output of the network."""
    targets = check_numbers(as_numbers(y), "y", np.float64)
    if targets.shape != shape:
        hint = "; for one output pass y[:, None]" if targets.ndim == 1 and shape[1] == 1 else ""
        raise InputError(f"expected y of shape {shape}, like the network's outputs, got {targets.shape}{hint}")
    check_finite(targets, "y")
    return targets


def check_width(features: int, hint: str) -> None:
    """Raise InputError if a matrix over all pairs of parameters would be too large for LAPACK."""
    if features > WIDEST:
        raise InputError(f"expected at most {WIDEST} parameters for a matrix over all pairs, got {features}; {hint}")


def _short(value: Any) -> str:
    return f"{len(value)} numbers" if isinstance(value, list) else repr(value)
