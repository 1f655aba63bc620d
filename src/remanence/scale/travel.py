"""What partitions taught, in the form that waits in workers and travels between them.

Settings and encoders stay behind, and so does what can be computed again. Roots are triangles, half of a square; those
of an estimator that is made of them are its own. So a task may overwrite them, and may run twice.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from remanence.estimators import RandomFeatures
from remanence.estimators.growing_features import GrowingFeatures
from remanence.evaluation.memory_size import memory_size
from remanence.memory.pending_rows import PendingRows
from remanence.memory.posterior import SharedFlag
from remanence.methods.banks.by_class import ByClassState
from remanence.methods.lowrank_rls import LowRankState
from remanence.methods.rls_state import RLSState

CREDIT = "_on_credit"
COMPUTED = "_solved"  # readouts of the state


@dataclass(frozen=True)
class LearnedPart:
    """The learned attributes of an estimator, with triangles for roots; they are never written to."""

    attributes: dict[str, Any]
    first: str = ""  # the name of its first partition, for messages

    def __sizeof__(self) -> int:
        """For Dask, which decides by it where a task runs and what is spilled to disk."""
        return object.__sizeof__(self) + memory_size(self.attributes)


def blank(model: Any, credit: bool) -> Any:
    """A copy that has learned nothing; without `credit` its first rows are answered only where learning earns that."""
    draft = model._blank()
    if not credit:
        setattr(draft, CREDIT, False)
    return draft


def pack(model: Any, first: str = "") -> LearnedPart:
    """What the model has learned; a frozen encoder stays with the settings, which reach every worker once."""
    left = {*model.get_params(deep=False), CREDIT, COMPUTED}
    attributes = {name: value for name, value in model.__dict__.items() if name not in left}
    if not isinstance(model.features, (RandomFeatures, GrowingFeatures)):
        attributes.pop("features_", None)
    attributes["state_"] = _with_roots(attributes["state_"], lambda root: root.__reduce__())
    return LearnedPart(attributes, first)


def unpack(model: Any, learned: LearnedPart) -> Any:
    """A new estimator with the settings of `model` that has learned this."""
    attributes = {name: getattr(model, name) for name in model.get_params(deep=False)} | learned.attributes
    attributes["state_"] = _with_roots(attributes["state_"], lambda packed: packed[0](*packed[1]))
    if model.features is not None:
        attributes.setdefault("features_", model.features)
    return model._with(attributes)


def _with_roots(state: Any, change: Callable[[Any], Any]) -> Any:
    """The state with its root, or those of its classes, changed, a buffer of its own, and nothing that was computed."""
    if isinstance(state, ByClassState):
        return state.each(lambda _, member: _with_roots(member, change))
    if not isinstance(state, (RLSState, LowRankState)):
        return state
    own: dict[str, Any] = {
        "pending": PendingRows(copy(state.pending.buffer), state.pending.count),
        "cache": type(state.cache)(),
    }
    if isinstance(state, RLSState):
        own |= {"data": change(state.data), "sharing": SharedFlag()}
    return replace(state, **own)
