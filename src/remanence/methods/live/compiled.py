"""Live filters in compiled code (kernels/native/live.pyx): LMS with a constant step, and RLS."""

from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from remanence.arrays import Array, read_only
from remanence.errors import NumericalError
from remanence.kernels.live import RowsLMS, RowsRLS
from remanence.methods.live.generic import check_row, check_target

if TYPE_CHECKING:
    from remanence.methods.lms import LMS, LMSState
    from remanence.methods.rls import RLS
    from remanence.methods.rls_state import RLSState

CAPACITY = 2048  # rows that RLS keeps until they are folded: one call in 2048 takes longer than the others


def rows_until_fold(forget: float) -> int:
    """How many rows RLS keeps: fewer where the prior would decay too far meanwhile (as in `track`)."""
    return CAPACITY if forget >= 1 else max(1, min(CAPACITY, int(-60.0 / np.log(forget))))


class _Checks:
    """What the compiled classes call in Python: slow input, and errors."""

    features: int
    outputs: int
    method: Any

    def checked_row(self, x: Any) -> Array:
        return check_row(x, self.features, np.float64)

    def checked_target(self, y: Any) -> Array:
        return check_target(y, self.outputs, np.float64)

    def overflowed(self) -> None:
        raise NumericalError("the numbers overflowed and the row was not learned; scale x and y, or use a smaller step")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.method, self.state())  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{self.method!r}.live(features={self.features}, outputs={self.outputs})"


class LiveLMS(_Checks, RowsLMS):
    """`Live` for LMS with a constant step."""

    def __new__(cls, method: "LMS", state: "LMSState") -> "LiveLMS":
        return super().__new__(cls, *state.W.shape)

    def __init__(self, method: "LMS", state: "LMSState") -> None:
        super().__init__(np.ascontiguousarray(state.W), float(method.step), method.normalized, state.count)  # type: ignore[arg-type]
        self.method = method

    @property
    def weights(self) -> Array:
        """W (features, outputs), read-only."""
        return read_only(self.read()[0])

    def state(self) -> "LMSState":
        """What was learned, as a state of LMS."""
        from remanence.methods.lms import LMSState

        return LMSState(*self.read())


class LiveRLS(_Checks, RowsRLS):
    """`Live` for RLS: rows are rotated into the joint root of rows and prior, and folded into the state later."""

    def __new__(cls, method: "RLS", state: "RLSState") -> "LiveRLS":
        return super().__new__(cls, *state.start.shape)

    def __init__(self, method: "RLS", state: "RLSState") -> None:
        forget = float(method.forget)
        super().__init__(rows_until_fold(forget), forget)
        self.method, self._lock = method, Lock()
        self._take_over(state, 0)

    @property
    def weights(self) -> Array:
        """W (features, outputs), read-only."""
        return read_only(self.solve())

    def state(self) -> "RLSState":
        """What was learned, as a state of RLS; the rows that are pending are folded in."""
        state, X, Y = self.held()
        return cast("RLSState", self.method.update(state, X, Y) if len(X) else state)

    def fold(self) -> None:
        """Fold the pending rows into the state, and take its joint root, in which the prior has its due weight."""
        with self._lock:
            while self.full():
                state, X, Y = self.held()
                self._take_over(self.method.settled(self.method.update(state, X, Y)), len(X))

    def _take_over(self, state: "RLSState", rows: int) -> bool:
        joint, gain = self.method.joint(state)
        return self.install(state, rows, np.ascontiguousarray(joint.factor), np.ascontiguousarray(joint.target), gain)
