"""Adapters that give estimators and methods one interface for the task loop."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError


@runtime_checkable
class EstimatorLike(Protocol):
    """A learner with the interface of an incremental scikit-learn estimator."""

    def partial_fit(self, X: Any, y: Any) -> Any: ...
    def predict(self, X: Any) -> Any: ...


@runtime_checkable
class MethodLike(Protocol):
    """A learner that maps a state and a block of rows to the next state."""

    def init(self, features: int, outputs: int) -> Any: ...
    def update(self, state: Any, X: Any, Y: Any) -> Any: ...
    def predict(self, state: Any, X: Any) -> Any: ...


class LearnerAdapter(Protocol):
    """The interface the task loop uses."""

    @property
    def learner(self) -> Any:
        """The estimator that is being trained, or the method."""

    @property
    def state(self) -> Any:
        """The state of a method; None for an estimator, which holds its own."""

    @property
    def predict(self) -> Callable[[Array], Any]:
        """Prediction with what has been learned so far."""

    def learn(self, X: Array, Y: Array) -> None: ...


class EstimatorAdapter:
    """An unfitted clone of an estimator; the estimator passed in is not changed."""

    state = None

    def __init__(self, estimator: EstimatorLike, targets: Sequence[Array]) -> None:
        from sklearn.base import clone

        self.learner = clone(estimator, safe=False)
        self.targets = targets

    def learn(self, X: Array, Y: Array) -> None:
        try:
            self.learner.partial_fit(X, Y)
        except ValueError as error:
            # scikit-learn's own classifiers cannot add classes later: the first call must name all of them.
            if "classes must be passed" not in str(error):
                raise
            self.learner.partial_fit(X, Y, classes=np.unique(np.concatenate(self.targets)))

    @property
    def predict(self) -> Callable[[Array], Any]:
        return self.learner.predict  # type: ignore[no-any-return]


class MethodAdapter:
    """A method and its current state."""

    def __init__(self, method: MethodLike, features: int, outputs: int) -> None:
        self.learner = method
        self.state = method.init(features, outputs)

    def learn(self, X: Array, Y: Array) -> None:
        self.state = self.learner.update(self.state, X, Y)

    @property
    def predict(self) -> Callable[[Array], Any]:
        return partial(self.learner.predict, self.state)


class InBlocks:
    """An adapter that learns each task in blocks of rows and evaluates after each of them."""

    def __init__(
        self,
        inner: LearnerAdapter,
        every: int,
        errors: Callable[[Callable[[Array], Any]], Array],
        steps: list[tuple[Array, int, int]],
    ) -> None:
        self.inner, self.every, self.errors, self.steps = inner, every, errors, steps
        self.tasks = self.rows = 0

    def learn(self, X: Array, Y: Array) -> None:
        self.tasks += 1
        for start in range(0, len(X), self.every):
            part = slice(start, start + self.every)
            self.inner.learn(X[part], Y[part])
            self.rows += len(X[part])
            self.steps.append((self.errors(self.predict), self.tasks, self.rows))

    @property
    def learner(self) -> Any:
        return self.inner.learner

    @property
    def state(self) -> Any:
        return self.inner.state

    @property
    def predict(self) -> Callable[[Array], Any]:
        return self.inner.predict


def adapt(learner: EstimatorLike | MethodLike, train: Sequence[tuple[Array, Array]]) -> LearnerAdapter:
    """A fresh adapter for a learner that is going to be trained on these blocks of rows (X, Y)."""
    if isinstance(learner, MethodLike):
        return MethodAdapter(learner, train[0][0].shape[1], train[0][1].shape[1])
    return EstimatorAdapter(learner, [Y for _, Y in train])


def check_learner(learner: Any) -> EstimatorLike | MethodLike:
    """The learner, or an InputError that names the methods it lacks."""
    if isinstance(learner, type):
        raise InputError(f"expected a learner, got the class {learner.__name__}; pass {learner.__name__}()")
    if isinstance(learner, (EstimatorLike, MethodLike)):
        return learner
    raise InputError(
        "expected an estimator with partial_fit and predict, or a method with init, update and predict, "
        f"got {type(learner).__name__}; an estimator that only has fit cannot learn task by task"
    )


def name_of(learner: Any) -> str:
    """The learner's repr on one line, or its class name where it has no repr of its own."""
    text = " ".join(repr(learner).split())
    return type(learner).__name__ if text.startswith("<") else text
