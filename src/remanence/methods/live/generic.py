"""Live filters: a method that is given one row at a time and changes in place.

live = method.live(features=64)        or method.live_from(state)
live.predict(x)                        a number, or (c,) for several outputs
live.learn(x, y)                       the error y − Wᵀx before learning
live.step(x, y)                        both
live.state()                           the state that `track` would have reached, to save, merge or take apart

This is the general form, which calls `track` for every row; LMS and RLS have compiled ones (compiled.py).
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.validation import check_finite, check_numbers

if TYPE_CHECKING:
    from remanence.methods.protocol import Method

State = TypeVar("State")


def check_row(x: Any, features: int, dtype: Any) -> Array:
    """x as a contiguous vector (features,) of finite numbers."""
    row = check_numbers(x, "x", dtype)
    if row.shape != (features,):
        raise InputError(
            f"expected x of shape ({features},), one row, got {row.shape}; learn many rows at once with `track`"
        )
    check_finite(row, "x")
    return np.ascontiguousarray(row)


def check_target(y: Any, outputs: int, dtype: Any) -> Array:
    """y as a vector (outputs,) of finite numbers; a number will do for one output."""
    target = check_numbers(y, "y", dtype)
    if target.shape != (outputs,) and not (outputs == 1 and target.shape == ()):
        wanted = "a number" if outputs == 1 else f"y of shape ({outputs},)"
        raise InputError(f"expected {wanted}, the target of one row, got shape {target.shape}")
    check_finite(target, "y")
    return np.ascontiguousarray(target).reshape(outputs)


class Live(Generic[State]):
    """A filter that is given one row at a time and changes in place.

    Made by `method.live(features, outputs)`. One thread may learn while others predict: they see the filter before a
    row or after it.

    Parameters
    ----------
    method : Method
        The settings.
    state : State
        What was learned so far.

    Examples
    --------
    >>> import remanence as rm
    >>> live = rm.APA(buffer=1).live(features=2)
    >>> live.learn([1.0, 0.0], 2.0), live.learn([1.0, 1.0], 5.0)
    (2.0, 3.0)
    >>> round(live.predict([0.0, 1.0]), 6)
    3.0
    """

    def __init__(self, method: "Method[State]", state: State) -> None:
        self.method, self._state = method, state
        template = method.template(state)
        (self.features, self.outputs), self._dtype = template.shape, template.dtype

    def predict(self, x: Any) -> float | Array:
        """The prediction for one row: a number, or (outputs,)."""
        return self._out(self.method.predict(self._state, check_row(x, self.features, self._dtype)[None])[0])

    def learn(self, x: Any, y: Any) -> float | Array:
        """Learn one row and its target; returns the error y − Wᵀx before learning."""
        return self._out(self._learned(x, y)[1])

    def step(self, x: Any, y: Any) -> tuple[float | Array, float | Array]:
        """Predict one row, then learn it; returns the prediction and the error."""
        target, error = self._learned(x, y)
        return self._out(target - error), self._out(error)

    @property
    def weights(self) -> Array:
        """W (features, outputs), read-only."""
        return self.method.weights(self._state)

    def state(self) -> State:
        """What was learned, as a state of the method."""
        return self._state

    def _learned(self, x: Any, y: Any) -> tuple[Array, Array]:
        row, target = check_row(x, self.features, self._dtype), check_target(y, self.outputs, self._dtype)
        self._state, errors = self.method.track(self._state, row[None], target[None])
        return target, errors[0]

    def _out(self, values: Array) -> float | Array:
        return values[0].item() if self.outputs == 1 else values

    def __repr__(self) -> str:
        return f"{self.method!r}.live(features={self.features}, outputs={self.outputs})"
