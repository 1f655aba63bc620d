"""What RLS has learned, class by class: a root per class, so that the weights of the classes are decided when solving.

    RᵀR = Σ_k v_k R_kᵀR_k          v_k = n/(c n_k)  "balanced": every class weighs the same; or given          (W1)

n_k is the number of rows of class k, n of all, c the number of classes that have rows. The rows of a class have the
one-hot target of that class, so its root has a single output. Everything that is asked is asked of the roots put
together (W1), which is an ordinary state of RLS; everything that changes rows changes the root of their class.

It costs c times the memory of one root, and putting the roots together, about c d³ multiplications, at the first
question after new rows. Learning costs what it costs with one root.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.memory import root as roots
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.root import Root
from remanence.methods.rls_state import RLSState
from remanence.validation import check_memory

SCHEDULE = WeightSchedule(1.0)  # all rows weigh alike
BALANCED = np.empty(0)


class Together:
    """The roots put together, once they were asked for; not part of a copy."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: RLSState | None = None

    def __reduce__(self) -> Any:
        return Together, ()


@dataclass(frozen=True, slots=True)
class ByClassState:
    """A state of RLS for the rows of each class; see rls_state.py."""

    members: Annotated[tuple[RLSState, ...], "d *"]
    given: Annotated[Array, "k float64"]  # (c,) v, or (0,) for "balanced"
    together: Together = field(default_factory=Together, init=False, repr=False, compare=False)

    @classmethod
    def from_state(cls, state: RLSState) -> "ByClassState":
        """One that has learned nothing, as the state has not."""
        made = cls((state.with_outputs(SCHEDULE, np.array([-1])),), BALANCED)
        return made.with_outputs(SCHEDULE, np.full(state.start.shape[1], -1))

    @property
    def start(self) -> Array:
        one = self.members[0].start
        return np.broadcast_to(np.zeros((), one.dtype), (len(one), len(self.members)))

    @property
    def scaled(self) -> bool:
        return self.members[0].scaled

    @property
    def unpenalized(self) -> int:
        return self.members[0].unpenalized

    @property
    def count(self) -> int:
        return sum(member.count for member in self.members)

    @property
    def factors(self) -> Array:
        """(c,) v: how often each row of a class counts; 1 where a class has no rows."""
        if len(self.given):
            return self.given
        counts = np.array([member.count for member in self.members], np.float64)
        with_rows = counts > 0
        return np.where(with_rows, counts.sum() / (max(with_rows.sum(), 1) * np.maximum(counts, 1)), 1.0)

    def weighted(self, factors: Array) -> "ByClassState":
        """With these weights of the classes; none for "balanced"."""
        return self if np.array_equal(factors, self.given) else ByClassState(self.members, factors)

    def as_least_squares(self, call: str) -> RLSState:
        """The state of all rows, weighted by class."""
        if self.together.state is None:
            self.together.state = self._put_together()
        return self.together.state

    def _put_together(self) -> RLSState:
        one, k = self.members[0], len(self.members)
        data = roots.empty(len(one.start), 1, one.start.dtype)
        for j, (member, factor) in enumerate(zip(self.members, self.factors, strict=True)):
            if j:
                data = data.with_outputs(np.append(np.arange(j), -1))  # the columns of later classes are zero so far
            if member.count and factor:
                data = data.merged(_weighted(member.all_rows(SCHEDULE), float(factor), j), donate=True)
        start = np.zeros((len(one.start), k), one.start.dtype)
        return RLSState.from_data(
            SCHEDULE, data, start, self.count, one.ridge, one.unpenalized, scaled=one.scaled, shared=True
        )

    # Changing

    def each(self, change: Callable[[WeightSchedule, RLSState], RLSState]) -> "ByClassState":
        """With every member changed."""
        return ByClassState(tuple(change(SCHEDULE, member) for member in self.members), self.given)

    def rows_by_class(self, X: Array, Y: Array) -> Iterator[tuple[int, Array, Array]]:
        """The rows of every class that has some, with the targets of that class."""
        labels = np.abs(Y).argmax(axis=1)
        if np.count_nonzero(Y) != len(Y) or not Y[np.arange(len(Y)), labels].all():
            raise InputError("expected targets with one entry that is not zero, at the class of the row")
        for k in np.unique(labels):
            rows = np.flatnonzero(labels == k)
            yield int(k), np.asfortranarray(X[rows]), np.asfortranarray(Y[rows, k : k + 1])

    def changed(self, X: Array, Y: Array, change: Callable[[RLSState, Array, Array], RLSState]) -> "ByClassState":
        """With the states of the classes of these rows changed, each by its rows."""
        members = list(self.members)
        for k, rows, targets in self.rows_by_class(X, Y):
            members[k] = change(members[k], rows, targets)
        return ByClassState(tuple(members), self.given)

    def learned(
        self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False, scratch: bool = False
    ) -> "ByClassState":
        return self.changed(X, Y, lambda own, rows, targets: own.learned(SCHEDULE, rows, targets, donate, True))

    def tracked(
        self, schedule: WeightSchedule, X: Array, Y: Array, donate: bool = False
    ) -> tuple["ByClassState", Array]:
        """With the rows X, Y, and the error of every row before it was learned: a fit per row."""
        state, errors = self, np.empty_like(Y)
        for i in range(len(X)):
            errors[i] = Y[i] - X[i] @ state.weights(schedule)
            state = state.learned(schedule, X[i : i + 1], Y[i : i + 1])
        return state, errors

    def merged(self, other: "ByClassState", merge: Callable[[RLSState, RLSState], RLSState]) -> "ByClassState":
        pairs = zip(self.members, other.members, strict=True)
        return ByClassState(tuple(merge(a, b) for a, b in pairs), self.given)

    def with_outputs(self, schedule: WeightSchedule, sources: Array) -> "ByClassState":
        one = self.members[0]
        size = len(sources) * len(one.start) ** 2 * one.start.dtype.itemsize
        hint = "use fewer features, or class_weight={label: weight}, which needs one memory for all classes"
        check_memory(size, f"a memory of {len(one.start)} features for each of {len(sources)} classes", hint)
        given = np.array([self.given[k] if k >= 0 else 1.0 for k in sources]) if len(self.given) else self.given
        return ByClassState(tuple(self.members[k] if k >= 0 else _without_rows(one) for k in sources), given)

    # What RLS asks of its states

    def weights(self, schedule: WeightSchedule) -> Array:
        return self.as_least_squares("weights").weights(schedule)

    def folded_state(self, schedule: WeightSchedule) -> "ByClassState":
        if not any(member.pending.count for member in self.members):
            return self
        return self.each(lambda own, member: member.folded_state(own))

    def precision_loss(self, schedule: WeightSchedule) -> float:
        return self.as_least_squares("precision_loss").precision_loss(schedule)

    def representative_rows(self, schedule: WeightSchedule) -> tuple[Array, Array]:
        return self.as_least_squares("rows").representative_rows(schedule)


def _without_rows(state: RLSState) -> RLSState:
    """A state with arrays of its own that has learned nothing."""
    return state.with_data(SCHEDULE, roots.empty(len(state.start), 1, state.start.dtype), 0)


def _weighted(root: Root, factor: float, place: int) -> Root:
    """A root of one output as one of place + 1 outputs, the others zero, its rows weighing so much more."""
    by, sources = np.sqrt(factor), np.append(np.full(place, -1), 0)
    wide = root.with_outputs(sources)
    scale = root.dtype.type(by)
    lost = None if wide.lost is None else wide.lost * by
    return Root(wide.factor * scale, wide.target * scale, wide.rest * factor, lost=lost)
