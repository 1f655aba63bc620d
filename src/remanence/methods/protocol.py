"""What every method can do: settings are a frozen value, what was learned is another, and updates are pure.

state = method.init(features, outputs, start)
state = method.update(state, X, Y)             rows in time order; cutting them elsewhere changes nothing
state, errors = method.track(state, X, Y)      errors: y − Wᵀx of every row before it was learned
W = method.weights(state)                      (features, outputs)
"""

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array
from remanence.memory.forking import unforked
from remanence.validation import check_result, check_rows, quiet

State = TypeVar("State")


class Method(ABC, Generic[State]):
    """A linear method: settings plus a memory of what it learned."""

    __slots__ = ()

    summary: ClassVar[str]  # one line: what it is
    cost: ClassVar[str]  # arithmetic a sample, d features, c outputs
    memory: ClassVar[str]  # numbers kept
    task_per_update: ClassVar[bool] = False  # an update is a task of its own, so that cutting a block matters

    @abstractmethod
    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> State:
        """A state that has learned nothing; `start` is a pre-trained model (features, outputs), default 0."""

    @abstractmethod
    def track(self, state: State, X: Any, Y: Any, donate: bool = False) -> tuple[State, Array]:
        """Learn rows X (n, d), Y (n, c); also the error of every row before it was learned, (n, c)."""

    @abstractmethod
    def weights(self, state: State) -> Array:
        """The model W (features, outputs); predictions are X @ W."""

    @abstractmethod
    def with_outputs(self, state: State, sources: Array) -> State:
        """The state whose output j is output sources[j], or where that is -1 one whose targets were all zero so far."""

    def template(self, state: State) -> Array:
        """An array of the shape (features, outputs) and the precision of the weights, without solving for them."""
        return self.weights(state)

    def accepts_state(self, state: object) -> bool:
        """Whether `state` is built as the states of this method with these settings are; files are checked with it."""
        return structure(state) == structure(self.init(1, 1))

    def settled(self, state: State) -> State:
        """The same state without pending rows, which files do not hold."""
        return state

    def update(self, state: State, X: Any, Y: Any, donate: bool = False) -> State:
        """Learn rows X (n, d), Y (n, c); `donate` gives the old state's memory away and changes no number."""
        return self.track(state, X, Y, donate)[0]

    @quiet
    def predict(self, state: State, X: Any) -> Array:
        """X @ W."""
        W = self.weights(state)
        X = check_rows(X, len(W), W.dtype)
        with unforked:
            answers = np.asarray(X @ W)
        check_result(answers)
        return answers


def structure(state: object) -> list[type]:
    """The class of a state, and of those of its fields that are dataclasses themselves."""
    parts = [getattr(state, f.name) for f in fields(state)] if is_dataclass(state) else []
    return [type(part) for part in (state, *parts) if is_dataclass(part)]
