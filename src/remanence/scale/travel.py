"""What partitions taught, in the form that waits in workers and travels between them.

It is pickled: triangles are packed, half of a square, while settings and encoders stay behind. What is unpacked has
roots of its own. So a task may overwrite them, and may run twice.
"""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.estimators import RandomFeatures
from remanence.estimators.growing_features import GrowingFeatures
from remanence.methods import RLS
from remanence.methods.rls_state import RLSState

CREDIT = "_on_credit"


@dataclass(frozen=True)
class LearnedPart:
    """The learned attributes of an estimator."""

    pickled: bytes
    arrays: tuple[Array, ...]  # the bytes of its arrays
    first: str = ""  # the name of its first partition, for messages

    def __sizeof__(self) -> int:
        """For Dask, which decides by it where a task runs and what is spilled to disk."""
        return len(self.pickled) + sum(array.nbytes for array in self.arrays)


def blank(model: Any, credit: bool) -> Any:
    """A copy that has learned nothing; without `credit` its first rows are answered only where learning earns that."""
    draft = model._blank()
    if not credit:
        setattr(draft, CREDIT, False)
    return draft


def pack(model: Any, first: str = "") -> LearnedPart:
    """What the model has learned; a frozen encoder stays with the settings, which reach every worker once."""
    left = {*model.get_params(deep=False), CREDIT}
    attributes = {name: value for name, value in model.__dict__.items() if name not in left}
    if not isinstance(model.features, (RandomFeatures, GrowingFeatures)):
        attributes.pop("features_", None)
    buffers = list[pickle.PickleBuffer]()
    pickled = pickle.dumps(attributes, protocol=5, buffer_callback=buffers.append)
    return LearnedPart(pickled, tuple(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers), first)


def unpack(model: Any, learned: LearnedPart, views: bool = False) -> Any:
    """A new estimator with the settings of `model` that has learned this.

    With `views`, arrays beside the roots of RLS may be those of `learned`, and must not be written to.
    """
    arrays: Iterable[Any] = learned.arrays
    if not (views and isinstance(model._method(), RLS)):
        arrays = (array.copy() for array in learned.arrays)
    attributes = {name: getattr(model, name) for name in model.get_params(deep=False)}
    attributes |= pickle.loads(learned.pickled, buffers=arrays)
    if model.features is not None:
        attributes.setdefault("features_", model.features)
    state = attributes["state_"]
    if isinstance(state, RLSState):
        state.sharing.shared = False
    return model._with(attributes)
