"""Interface of the least-squares methods, RLS and LowRankRLS: weighted samples, removal, merging, change of ridge."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array
from remanence.methods.protocol import Method, State


class SoftMethod(Method[State]):
    """Base class of methods whose state is the information of all samples."""

    __slots__ = ()

    @abstractmethod
    def init(
        self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64, free: int = 0
    ) -> State:
        """A state that has learned nothing; the first `free` features (an intercept) are not penalized."""

    def absorb(self, state: State, X: Array, Y: Array, donate: bool = False) -> State:
        """`update` for rows that were checked already and may be overwritten."""
        return self.update(state, X, Y, donate)

    @abstractmethod
    def rows(self, state: State) -> tuple[Array, Array] | None:
        """Rows with the Gram matrix of all rows learned, and the size of what was rounded per column.

        None where only constraints are kept.
        """

    @abstractmethod
    def remove(self, state: State, X: Any, Y: Any, accept_loss: bool = False) -> State:
        """The state that never saw these rows; refused when they cannot have been learned.

        A removal that takes more digits than promised is refused too, unless `accept_loss`.
        """

    @abstractmethod
    def precision_loss(self, state: State) -> float:
        """How far removals may have moved the predictions, relative to them; 0 where nothing was removed."""

    @abstractmethod
    def merge(self, a: State, b: State) -> State:
        """The state that saw the rows of both; the prior counts once."""

    @abstractmethod
    def shifted(self, state: State, by: Array) -> State:
        """The state whose features 1, 2, … were larger by `by` times feature 0, the column of the intercept."""

    @abstractmethod
    def with_ridge(self, state: State, ridge: Any) -> State:
        """The state as if it had been learned with another ridge."""

    @abstractmethod
    def ridge_of(self, state: State) -> float:
        """The ridge in force: the setting, or with "auto" the one chosen for the rows seen."""

    @abstractmethod
    def variance(self, state: State, X: Any) -> Array:
        """The predictive variance of every output at every row of X, (n, c)."""
