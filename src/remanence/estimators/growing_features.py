"""Features whose number grows with the rows, and how the memory of an estimator grows with them.

    a new feature has been 0 in all rows so far, so the root of the rows gets a column of zeros: R ← [R 0; 0 0]   (Z)

So an estimator that meets a new feature is the one that had it from the beginning, and two estimators that met
different features are merged after both got those of the other.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from remanence.arrays import Array
from remanence.estimators.one_value import OneValue


class GrowingFeatures(ABC):
    """Features of rows of any kind; values of this class are never changed, methods return others."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of features so far."""

    @abstractmethod
    def columns_in(self) -> list[str]:
        """The names of the columns that rows have."""

    @abstractmethod
    def begun(self, X: Any) -> Self:
        """The features for tables like this one, before any row was met; those that were met before are kept."""

    @abstractmethod
    def read(self, X: Any) -> Any:
        """The rows of a table as `encode` takes them: they have a length and a shape."""

    @abstractmethod
    def encode(self, rows: Any) -> Array:
        """The features of rows, (n, width)."""

    @abstractmethod
    def grown(self, rows: Any) -> Self:
        """With the features that are new in these rows behind the others."""

    @abstractmethod
    def with_numbers(self, names: list[str]) -> Self:
        """With further columns of numbers behind the others, which have been 0 in all rows."""

    @abstractmethod
    def without(self, rows: Any) -> tuple[Self, Array]:
        """Without these rows, and which features are left; rows that were never met are an InputError."""

    @abstractmethod
    def merged(self, other: Any) -> tuple[Self, Array]:
        """With what others met, and for every feature its place among the others' features, or -1."""


class GrowsFeatures(OneValue):
    """The part of an estimator that lets its memory grow with its features; nothing happens where these do not grow."""

    features: Any
    features_: Any
    fit_intercept: bool
    offset_: Array
    state_: Any
    n_features_in_: int

    def _method(self) -> Any:
        raise NotImplementedError

    def _grows(self) -> bool:
        return isinstance(self.features, GrowingFeatures)

    def _grow(self, X: Any, fresh: bool) -> Any:
        """X as rows of `features`, with the memory grown by what is new in them (Z)."""
        if not self._grows():
            return X
        if fresh:
            self.features_ = self.features.begun(X)
            names = self.features_.columns_in()
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        rows = self.features_.read(X)
        before, grown = self.features_.width, self.features_.grown(rows)
        if not fresh and grown.width > before:
            self._take_features(_behind(before, grown.width))
        self.features_ = grown
        return rows

    def _met(self, X: Any) -> Any:
        """X as rows of `features`; rows that cannot have been learned are an InputError."""
        if not self._grows():
            return X
        rows = self.features_.read(X)
        self.features_.without(rows)
        return rows

    def _shrink(self, rows: Any) -> None:
        """Without the features that only these rows had, which were removed."""
        if self._grows():
            left, places = self.features_.without(rows)
            if len(places) < self.features_.width:
                self._take_features(places)
            self.features_ = left

    def _with_features_of(self, other: Any) -> Any:
        """The other estimator with the features that both have met, which this one gets too (Z)."""
        if not self._grows():
            return other
        before, (both, places) = self.features_.width, self.features_.merged(other.features_)
        if both.width > before:
            self._take_features(_behind(before, both.width))
        if not np.array_equal(places, np.arange(other.features_.width)):
            other._take_features(places)
        self.features_ = other.features_ = both
        return other

    def _take_features(self, places: Array) -> None:
        """Take the features at these places of the memory; -1 stands for one that was 0 in all rows."""
        method, first = self._method(), int(self.fit_intercept)
        moved = np.concatenate([np.arange(first), np.where(places >= 0, places + first, -1)])
        self.state_ = method.with_columns(self.state_, moved)
        if "_earlier" in self.__dict__:
            self.__dict__["_earlier"] = None  # a readout of the features as they were
        if first:
            self.offset_ = np.where(places >= 0, self.offset_[places], 0).astype(self.offset_.dtype)


def _behind(before: int, now: int) -> Array:
    """The places of features, of which those behind `before` are new."""
    return np.concatenate([np.arange(before), np.full(now - before, -1)])
