"""GROUSE: a subspace from rows with gaps, by a step along a geodesic for every row; nothing else is remembered.

    w = argmin ‖x − U w‖ over the entries that are there,   p = U w,   r = x − p there and 0 elsewhere         (G1)
    θ = μ arctan(‖r‖ / ‖p‖)                                                                                    (G2)
    U ← U + ((cos θ − 1) p/‖p‖ + sin θ r/‖r‖) wᵀ/‖w‖                                                           (G3)

(G3) is the geodesic from the span of U along the gradient −2rwᵀ of ‖r‖². With μ = 1 a row without gaps lies in the
span afterwards: what the normalised LMS is to RLS, this is to PETRELS.
"""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.decomposition.subspace_learner import SubspaceLearner, coordinates
from remanence.validation import check_count, check_number, check_result, quiet


class GROUSE(SubspaceLearner):
    """The subspace that rows with gaps lie in, corrected row by row without a memory of earlier rows.

    The cheapest of the trackers, and it follows a subspace that turns. `components_` (r, d) is an orthonormal basis in
    no particular order. The rows are not centred; a mean takes one direction more.

    Parameters
    ----------
    rank : int, default=5
        The dimension of the subspace, at most the number of columns.
    step : float, default=1.0
        μ: the share of the way to each row, at most 1; less where rows are noisy.
    seed : int, default=0
        Seed of the first basis, which is random.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 2)) @ rng.standard_normal((2, 10))
    >>> gaps = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    >>> tracker = rm.GROUSE(rank=2).partial_fit(gaps)
    >>> bool(np.allclose(tracker.inverse_transform(tracker.transform(X)), X))
    True

    References
    ----------
    Balzano, Nowak and Recht (2010), "Online identification and tracking of subspaces from highly incomplete
    information", Allerton.
    Zhang and Balzano (2016), "Global convergence of a Grassmannian gradient descent algorithm for subspace
    estimation", AISTATS: the step (G2).
    """

    prefix = "grouse"
    summary = "a subspace from rows with gaps: a step along a geodesic, no memory of rows"
    cost = "dr² + 4dr"
    memory = "dr"

    def __init__(self, rank: int = 5, step: float = 1.0, seed: int = 0) -> None:
        self.rank = rank
        self.step = step
        self.seed = seed

    def transform(self, X: Any) -> Array:
        """The coordinates (n, r) of the rows along `components_`; entries that are NaN are left out."""
        return self._draft()._along(X, 0.0)

    def inverse_transform(self, T: Any) -> Array:
        """The rows (n, d) that have these coordinates."""
        return self._draft()._rows_at(T, 0.0)

    def check_settings(self) -> None:
        """Raise InputError where a setting cannot be used."""
        check_count(self.rank, "rank")
        if check_number(self.step, "step", hint="the share of the way to each row") > 1:
            raise InputError(f"expected step to be at most 1, got {self.step!r}; 1 goes all the way to each row")
        check_count(self.seed, "seed", low=0)

    @quiet
    def _learn(self, X: Any, reset: bool) -> Self:
        self.check_settings()
        X = self._checked(X, reset)
        if reset:
            d, rank = X.shape[1], min(self.rank, X.shape[1])
            self.components_ = np.linalg.qr(np.random.default_rng(self.seed).standard_normal((d, rank)))[0].T
        U = self.components_.T
        there = ~np.isnan(X)
        for x, known in zip(X, there, strict=True):
            U = _turned(U, np.where(known, x, 0.0), known, self.step)
        Q, R = np.linalg.qr(U)  # (takes out what rounding has done; R is the identity but for that)
        self.components_ = np.ascontiguousarray((Q * np.sign(np.diagonal(R))).T)
        check_is_fitted(self)
        check_result(self.components_)
        return self


def _turned(U: Array, x: Array, there: Array, step: float) -> Array:
    """The basis (d, r) after one row."""
    w = coordinates(x, U.T, there)
    p = U @ w
    r = np.where(there, x - p, 0.0)  # (G1)
    far, size = np.linalg.norm(r), np.linalg.norm(p)
    if not far or not size:  # (a row in the span, or one that says nothing of how to turn it)
        return U
    angle = step * np.arctan(far / size)  # (G2)
    return np.asarray(U + np.outer((np.cos(angle) - 1) / size * p + np.sin(angle) / far * r, w / size))  # (G3)
