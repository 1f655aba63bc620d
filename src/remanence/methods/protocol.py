"""The interface of every linear method: settings are one frozen value, what was learned another, updates are pure.

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
from remanence.errors import InputError
from remanence.memory.products import scores_of
from remanence.methods.live.generic import Live
from remanence.validation import check_rows, quiet

State = TypeVar("State")


class Method(ABC, Generic[State]):
    """Base class of the linear methods: settings, and functions of a state that holds what was learned.

    A method is a frozen dataclass of settings. `init` makes a state; `update` and `track` return a new state and leave
    the old one as it was; `weights` and `predict` read it.
    """

    __slots__ = ()

    summary: ClassVar[str]  # one line: what it is
    cost: ClassVar[str]  # operations per sample; d features, c outputs
    memory: ClassVar[str]  # numbers kept
    linear: ClassVar[bool] = True  # predictions are X @ weights; else `predict` is the method's own
    task_per_update: ClassVar[bool] = False  # an update is a task of its own, so that cutting a block matters

    @abstractmethod
    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> State:
        """A state that has learned nothing.

        Parameters
        ----------
        features, outputs : int
            d and c.
        start : array (d, c), optional
            θ⁰, a pre-trained model to begin from; 0 by default.
        dtype : float64, float32, complex128 or complex64
            The precision of the state. LMS, BlockLMS, APA, ICL, RLS, WindowRLS and Kalman learn complex rows: they
            minimise |y − xᵀw|², and predictions are X @ W.
        """

    @abstractmethod
    def track(self, state: State, X: Any, Y: Any, donate: bool = False) -> tuple[State, Array]:
        """Learn rows, and report the error of each before it was learned.

        Parameters
        ----------
        state : State
        X, Y : array (n, d), array (n, c)
            Samples in time order.
        donate : bool
            See `update`.

        Returns
        -------
        state : State
        errors : array (n, c)
            y − Wᵀx of every row, with the weights W before that row.
        """

    @abstractmethod
    def weights(self, state: State) -> Array:
        """The model W (features, outputs); predictions are X @ W, unless the method is not linear."""

    @abstractmethod
    def with_outputs(self, state: State, sources: Array) -> State:
        """The state whose output j is output sources[j], or where that is -1 one whose targets were all zero so far."""

    def with_columns(self, state: State, sources: Array) -> State:
        """The state whose feature j is feature sources[j], or where that is -1 one that was zero in all rows so far."""
        raise InputError(
            f"expected a method whose features can grow, RLS, LowRankRLS or LMS, got {type(self).__name__}"
        )

    def template(self, state: State) -> Array:
        """An array of the shape (features, outputs) and the precision of the weights, without solving for them."""
        return self.weights(state)

    def accepts_state(self, state: object) -> bool:
        """Whether `state` is built as the states of this method with these settings are; files are checked with it."""
        return structure(state) == structure(self.init(1, 1))

    def settled(self, state: State) -> State:
        """The same state without pending rows, which a file must not hold."""
        return state

    def update(self, state: State, X: Any, Y: Any, donate: bool = False) -> State:
        """Learn rows.

        Parameters
        ----------
        state : State
        X, Y : array (n, d), array (n, c)
            Samples in time order; learning them in several calls gives the same up to rounding.
        donate : bool
            True permits the method to reuse the arrays of `state` for the result; `state` must not be used
            afterwards. The result is the same. RLS makes use of it, and then needs no second copy of its d × d
            factor; methods whose states are small ignore it.

        Returns
        -------
        state : State
        """
        return self.track(state, X, Y, donate)[0]

    def live(self, features: int, outputs: int = 1, start: Any = None, dtype: DTypeLike = np.float64) -> Live[State]:
        """A filter that is given one row at a time and changes in place; the numbers are those of `track`."""
        return self.live_from(self.init(features, outputs, start, dtype))

    def live_from(self, state: State) -> Live[State]:
        """A live filter that goes on from a state; the state itself does not change."""
        return Live(self, state)

    @quiet
    def predict(self, state: State, X: Any) -> Array:
        """The predictions X @ W (n, c) at rows X (n, d)."""
        W = self.weights(state)
        return scores_of(check_rows(X, len(W), W.dtype, finite=False), W)


def structure(state: object) -> list[type]:
    """The class of a state, and of those of its fields that are dataclasses themselves."""
    parts = [getattr(state, f.name) for f in fields(state)] if is_dataclass(state) else []
    return [type(part) for part in (state, *parts) if is_dataclass(part)]
