"""Methods as river regressors: one dictionary of features at a time, and new features whenever they come.

A feature that is absent counts as zero, so a feature that comes later has been zero so far: growing the state is exact.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from remanence.errors import InputError, MissingDependency
from remanence.methods.lms import LMS
from remanence.methods.rls import RLS

try:
    from river import base
except ImportError:  # pragma: no cover
    raise MissingDependency("rm.compat.river needs river; install it with `pip install river`") from None


class Regressor(base.Regressor):  # type: ignore[misc, unused-ignore]
    """RLS or LMS behind river's `learn_one` and `predict_one`.

    Parameters
    ----------
    method : RLS or LMS, default None
        The settings; None is `RLS()`.
    intercept : bool
        Whether a constant feature is added; RLS does not penalize it.

    Examples
    --------
    >>> import remanence as rm
    >>> model = rm.compat.river.Regressor(rm.RLS(ridge=1e-6))
    >>> for x, y in [({"a": 0.0}, 1.0), ({"a": 1.0}, 3.0), ({"a": 1.0, "b": 1.0}, 2.0)]:
    ...     model.learn_one(x, y)
    >>> round(model.predict_one({"a": 2.0, "b": 1.0}), 3)
    4.0
    """

    def __init__(self, method: RLS | LMS | None = None, intercept: bool = True) -> None:
        if not isinstance(method, RLS | LMS | None):
            raise InputError(f"expected RLS or LMS settings, which can grow by new features, got {method!r}")
        self.method, self.intercept = method, intercept
        self._columns: dict[Hashable, int] = {}
        self._live: Any = None

    def learn_one(self, x: Mapping[Hashable, Any], y: float) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : dict
            Numbers by feature name; absent features are zero.
        y : float
            The target.
        """
        method: Any = self.method or RLS()
        columns, first = dict(self._columns), int(self.intercept)
        for name in x:
            columns.setdefault(name, len(columns) + first)
        live, features = self._live, max(len(columns) + first, 1)
        if live is None:
            free = {"free": first} if isinstance(method, RLS) else {}
            live = method.live_from(method.init(features, 1, **free))
        elif live.features < features:
            live = method.live_from(method.with_features(live.state(), features))
        live.learn(self._row(x, columns, features), y)  # raises before anything has changed
        self._live, self._columns = live, columns

    def predict_one(self, x: Mapping[Hashable, Any]) -> float:
        """Predict one sample.

        Parameters
        ----------
        x : dict
            Numbers by feature name; features that were never learned do not count.

        Returns
        -------
        float
            The prediction; 0 before anything was learned.
        """
        if self._live is None:
            return 0.0
        return float(self._live.predict(self._row(x, self._columns, self._live.features)))

    def _row(self, x: Mapping[Hashable, Any], columns: dict[Hashable, int], features: int) -> np.ndarray[Any, Any]:
        row = np.zeros(features)
        if self.intercept:
            row[0] = 1.0
        for name, value in x.items():
            if name in columns:
                try:
                    row[columns[name]] = value
                except (TypeError, ValueError):
                    raise InputError(
                        f"expected a number for feature {name!r}, got {value!r}; encode it first"
                    ) from None
        return row
