"""Singular value decomposition of rows that keep arriving: principal components that merge, forget and take gaps.

    [√β diag(s) Vᵀ; √w (X − x̄); √(N n/(N + n)) (mean − x̄)] = P diag(s') V'ᵀ,  cut to the `rank` strongest     (V1)
    a row with gaps: a = argmin ‖x − mean − Va‖ over the entries that are there, the others are mean + Va     (V2)

N and n are the weights of the old and the new rows, x̄ the mean of the new ones. The singular vectors on the left are
not formed. Where nothing is cut, it is the decomposition of all rows at once.
"""

from typing import Any, Self

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dormqr
from sklearn.utils.validation import check_is_fitted

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.decomposition.subspace_learner import SubspaceLearner, coordinates
from remanence.estimators.settings import check_bool
from remanence.validation import check_count, check_number, check_result, quiet

ROUNDS = 10  # of filling the gaps of a block and decomposing it


class StreamingSVD(SubspaceLearner):
    """Truncated SVD or principal components of rows that keep arriving.

    Like IncrementalPCA of scikit-learn, and blocks may have any number of rows, old ones may fade, two decompositions
    may be merged, and NaN is a missing entry; `PETRELS` takes more of them. `components_` (r, d), `singular_values_`
    (r,), `mean_` (d,) and `n_seen_`, the weight of all rows, are what was learned.

    Parameters
    ----------
    rank : int or None, default=None
        How many directions to keep; None keeps all.
    forget : float, default=1.0
        β: the weight of a row falls by this factor with every row after it.
    center : bool, default=True
        Subtract the mean, for principal components; False decomposes the rows as they are.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.random.default_rng(0).standard_normal((40, 3)) @ np.array([[1.0, 1.0, 0.0, 0.0]] * 3)
    >>> svd = rm.StreamingSVD(rank=1).partial_fit(X[:25]).partial_fit(X[25:])
    >>> np.abs(svd.components_).round(6).tolist()
    [[0.707107, 0.707107, 0.0, 0.0]]
    >>> gap = X[:1].copy()
    >>> gap[0, 1] = np.nan
    >>> bool(np.allclose(svd.inverse_transform(svd.transform(gap)), X[:1]))
    True

    References
    ----------
    Brand (2002), "Incremental singular value decomposition of uncertain data with missing values", ECCV.
    Ross, Lim, Lin and Yang (2008), "Incremental learning for robust visual tracking", IJCV: the row of the means.
    """

    prefix = "svd"
    summary = "the strongest directions of all rows, with their mean; merges, forgets, takes gaps"
    cost = "4dr per row of a block"
    memory = "dr + d"

    def __init__(self, rank: int | None = None, forget: float = 1.0, center: bool = True) -> None:
        self.rank = rank
        self.forget = forget
        self.center = center

    def transform(self, X: Any) -> Array:
        """The coordinates (n, r) of the rows along `components_`; entries that are NaN are left out."""
        check_is_fitted(self, "components_")
        held = self._draft()
        return held._along(X, held.mean_)

    def inverse_transform(self, T: Any) -> Array:
        """The rows (n, d) that have these coordinates."""
        check_is_fitted(self, "components_")
        held = self._draft()
        return held._rows_at(T, held.mean_)

    @quiet
    def merge(self, other: "StreamingSVD") -> Self:
        """Learn the rows that another one has learned."""
        for each in (self, other):
            check_is_fitted(each, "components_")
        if not isinstance(other, StreamingSVD) or other.get_params() != self.get_params() or self.forget != 1:
            raise InputError(f"expected a StreamingSVD with these settings and forget=1 to merge, got {other!r:.60}")
        if other.n_features_in_ != self.n_features_in_:
            raise InputError(f"expected {self.n_features_in_} columns, got {other.n_features_in_}")
        rows = other.singular_values_[:, None] * other.components_
        draft = self._draft()
        return self._hand_over(draft._joined(rows, other.mean_, other.n_seen_, other.energy_))

    @property
    def explained_variance_ratio_(self) -> Array:
        """(r,) The share of the sum of squares along every direction."""
        check_is_fitted(self, "components_")
        return np.asarray(self.singular_values_**2 / (self.energy_ or 1.0))

    def check_settings(self) -> None:
        """Raise InputError where a setting cannot be used."""
        if self.rank is not None:
            check_count(self.rank, "rank", hint="None keeps every direction")
        if check_number(self.forget, "forget", hint="1 keeps everything, 0.99 fades") > 1:
            raise InputError(f"expected forget to be at most 1, got {self.forget!r}; 1 keeps everything, 0.99 fades")
        check_bool(self.center, "center")

    # Helpers

    @quiet
    def _learn(self, X: Any, reset: bool) -> Self:
        self.check_settings()
        X = self._checked(X, reset)
        if reset and np.isnan(X).all(axis=0).any():
            raise InputError("expected an entry in every column of the first rows, got a column of NaN alone")
        if reset:
            self.components_, self.singular_values_ = np.zeros((0, X.shape[1])), np.zeros(0)
            self.mean_, self.n_seen_, self.energy_ = np.zeros(X.shape[1]), 0.0, 0.0
        gaps = np.isnan(X)
        if not gaps.any():
            return self._with_rows(X)
        filled = self._filled(X, gaps) if self.n_seen_ else np.where(gaps, np.nanmean(X, axis=0), X)
        for _ in range(ROUNDS):  # (V2)
            found = self._draft()._with_rows(filled)
            filled = found._filled(X, gaps)
        return self._with_rows(filled)

    def _filled(self, X: Array, gaps: Array) -> Array:
        """The rows with their gaps filled from what was learned (V2)."""
        V, mean = self.components_, self.mean_
        guess = [mean + coordinates(x - mean, V, ~gap) @ V for x, gap in zip(X, gaps, strict=True)]
        return np.where(gaps, np.array(guess), X)

    def _with_rows(self, X: Array) -> Self:
        weights = self.forget ** np.arange(len(X) - 1, -1, -1.0)
        total, fade = float(weights.sum()), self.forget ** len(X)
        mean = weights @ X / total if self.center else np.zeros(X.shape[1])
        rows = np.sqrt(weights)[:, None] * (X - mean)
        self.singular_values_ = self.singular_values_ * np.sqrt(fade)
        self.n_seen_, self.energy_ = self.n_seen_ * fade, self.energy_ * fade
        return self._joined(rows, mean, total, float(np.vdot(rows, rows)))

    def _joined(self, rows: Array, mean: Array, weight: float, energy: float) -> Self:
        """With rows around their mean, of this weight and sum of squares (V1)."""
        N, n = self.n_seen_, weight
        between = np.sqrt(N * n / (N + n)) * (self.mean_ - mean)
        stacked = [self.singular_values_[:, None] * self.components_, rows]
        if self.center and N:
            stacked.append(between[None])
        strength, V = _leading(np.concatenate(stacked), self.rank)
        signs = np.sign(V[np.arange(len(V)), np.abs(V).argmax(axis=1)])
        self.components_, self.singular_values_ = V * signs[:, None], strength
        self.mean_ = self.mean_ + (n / (N + n)) * (mean - self.mean_)
        self.n_seen_, self.energy_ = N + n, self.energy_ + energy + (float(between @ between) if self.center else 0.0)
        check_result(self.components_, self.singular_values_, self.mean_, np.array(self.energy_))
        return self


def _leading(rows: Array, rank: int | None) -> tuple[Array, Array]:
    """The leading singular values and right singular vectors (r, d), from a triangle no larger than d or n."""
    n, d = rows.shape
    check_result(rows)
    if n > d:
        _, s, V = np.linalg.svd(np.linalg.qr(rows, mode="r"))
        return s[:rank].copy(), V[:rank]
    (reflections, scales), R = qr(rows.T, mode="raw", check_finite=False)
    _, s, W = np.linalg.svd(R.T)
    kept = np.zeros((d, min(n, rank or n)), order="F")
    kept[:n] = W[: kept.shape[1]].T
    V = dormqr("L", "N", reflections, scales, kept, 64 * d)[0].T  # Q times what is kept; Q itself is never formed
    return s[:rank].copy(), np.ascontiguousarray(V)
