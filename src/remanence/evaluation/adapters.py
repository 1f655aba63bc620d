"""Two kinds of learner, one face: a scikit-learn estimator, or a method and its state."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError


@runtime_checkable
class Estimator(Protocol):
    """What learns as scikit-learn estimators do."""

    def partial_fit(self, X: Any, y: Any) -> Any: ...
    def predict(self, X: Any) -> Any: ...


@runtime_checkable
class Method(Protocol):
    """What learns by turning one state into the next."""

    def init(self, features: int, outputs: int) -> Any: ...
    def update(self, state: Any, X: Any, Y: Any) -> Any: ...
    def predict(self, state: Any, X: Any) -> Any: ...


class Pupil(Protocol):
    """What the loop talks to."""

    def learn(self, X: Array, Y: Array) -> None: ...
    def predict(self, X: Array) -> Any: ...

    @property
    def carried(self) -> Any:
        """What it has to keep in order to go on."""


class EstimatorPupil:
    """A copy of an estimator, unfitted; the one it was made from is left alone."""

    def __init__(self, estimator: Estimator, targets: Sequence[Array]) -> None:
        from sklearn.base import clone

        self.estimator = clone(estimator, safe=False)
        self.targets = targets

    def learn(self, X: Array, Y: Array) -> None:
        try:
            self.estimator.partial_fit(X, Y)
        except ValueError as refusal:
            # scikit-learn's own classifiers cannot grow: they must be told at the first call what will ever come
            if "classes must be passed" not in str(refusal):
                raise
            self.estimator.partial_fit(X, Y, classes=np.unique(np.concatenate(self.targets)))

    def predict(self, X: Array) -> Any:
        return self.estimator.predict(X)

    @property
    def carried(self) -> Any:
        return self.estimator


class MethodPupil:
    """A method together with the state it has reached."""

    def __init__(self, method: Method, features: int, outputs: int) -> None:
        self.method = method
        self.state = method.init(features, outputs)

    def learn(self, X: Array, Y: Array) -> None:
        self.state = self.method.update(self.state, X, Y)

    def predict(self, X: Array) -> Any:
        return self.method.predict(self.state, X)

    @property
    def carried(self) -> Any:
        return self.state


def check_learner(learner: Any) -> Estimator | Method:
    """An estimator or a method, or a refusal that says which calls are missing."""
    if isinstance(learner, type):
        raise InputError(f"expected a learner, got the class {learner.__name__}; pass {learner.__name__}()")
    if isinstance(learner, (Estimator, Method)):
        return learner
    raise InputError(
        "expected an estimator with partial_fit and predict, or a method with init, update and predict, "
        f"got {type(learner).__name__}; an estimator that only has fit cannot learn task by task"
    )


def name_of(learner: Any) -> str:
    """The learner with its settings on one line, or its class where it does not say them."""
    text = " ".join(repr(learner).split())
    return type(learner).__name__ if text.startswith("<") else text
