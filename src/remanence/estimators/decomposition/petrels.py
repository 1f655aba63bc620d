"""PETRELS: a subspace from rows with gaps, by recursive least squares for every column.

    a = argmin ‖x − D a‖ over the entries that are there                                                       (T1)
    dⱼ = argmin Σ β^age (xⱼ − aᵀd)² + β^rows δ‖d − dⱼ⁰‖²  over the rows in which entry j is there              (T2)

D (d, r) has the rows dⱼ; D⁰ is random with orthonormal columns. Each dⱼ is a regression on the coordinates a, so its
memory is a root of r × r; columns that have had the same gaps share one (memory/gaps/shared_roots.py).
"""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.decomposition.subspace_learner import SubspaceLearner, fitted
from remanence.memory.gaps.shared_roots import SharedRoots, shared_roots
from remanence.validation import check_count, check_number, check_result, quiet


class PETRELS(SubspaceLearner):
    """The subspace that rows with many gaps lie in, where old rows fade.

    Use it in place of `StreamingSVD` where many entries are missing: nothing is imputed. The rows are not centred; a
    mean takes one direction more. `components_` (r, d) and `singular_values_` (r,) are those of the fitted rows,
    strongest first; `loadings_` (d, r) is D, and `n_seen_` the weight of all rows.

    Parameters
    ----------
    rank : int, default=5
        The dimension of the subspace, at most the number of columns.
    forget : float, default=0.98
        β: the weight of a row falls by this factor with every row after it. Below 1 even where nothing changes, since
        coordinates of early rows were found with a basis that was still wrong.
    ridge : float, default=0.01
        δ: the precision with which the first, random basis is believed, beside squares of the rows.
    seed : int, default=0
        Seed of the first basis.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 2)) @ rng.standard_normal((2, 10))
    >>> gaps = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    >>> tracker = rm.PETRELS(rank=2).partial_fit(gaps)
    >>> bool(np.allclose(tracker.inverse_transform(tracker.transform(X)), X, atol=1e-6))
    True

    References
    ----------
    Chi, Eldar and Calderbank (2013), "PETRELS: parallel subspace estimation and tracking by recursive least squares
    from partial observations", IEEE Transactions on Signal Processing.
    """

    prefix = "petrels"
    summary = "a subspace from rows with gaps: one recursive least squares for every column"
    cost = "dr² + 4gr² for g histories of gaps"
    memory = "dr + gr² for g histories of gaps"

    def __init__(self, rank: int = 5, forget: float = 0.98, ridge: float = 0.01, seed: int = 0) -> None:
        self.rank = rank
        self.forget = forget
        self.ridge = ridge
        self.seed = seed

    def transform(self, X: Any) -> Array:
        """The coordinates (n, r) of the rows along `components_`; entries that are NaN are left out."""
        return self._draft()._along(X, 0.0)

    def inverse_transform(self, T: Any) -> Array:
        """The rows (n, d) that have these coordinates."""
        return self._draft()._rows_at(T, 0.0)

    @property
    def components_(self) -> Array:
        """(r, d) An orthonormal basis of the subspace, the direction with the largest squares first."""
        V = self._decomposed()[1]
        signs = np.sign(V[np.arange(len(V)), np.abs(V).argmax(axis=1)])
        return np.asarray(V * signs[:, None])

    @property
    def singular_values_(self) -> Array:
        """(r,) Those of the fitted rows aᵀDᵀ, each with its weight."""
        return self._decomposed()[0]

    def check_settings(self) -> None:
        """Raise InputError where a setting cannot be used."""
        check_count(self.rank, "rank")
        if check_number(self.forget, "forget", hint="1 keeps everything, 0.98 fades") > 1:
            raise InputError(f"expected forget to be at most 1, got {self.forget!r}; 1 keeps everything, 0.98 fades")
        check_number(self.ridge, "ridge", hint="the precision of the first basis")
        check_count(self.seed, "seed", low=0)

    # Helpers

    @quiet
    def _learn(self, X: Any, reset: bool) -> Self:
        self.check_settings()
        X = self._checked(X, reset)
        if reset:
            d, rank = X.shape[1], min(self.rank, X.shape[1])
            first = np.random.default_rng(self.seed).standard_normal((d, rank))
            start = shared_roots(d, rank, self.ridge)
            self.loadings_, self.n_seen_ = np.linalg.qr(first)[0], 0.0
            self.roots_, self.owner_ = start.roots, start.owner
        D, memory = self.loadings_.copy(), SharedRoots(self.roots_, self.owner_)
        there = ~np.isnan(X)
        for x, known in zip(X, there, strict=True):
            a = fitted(D[known], x[known])  # (T1)
            memory, gains = memory.with_row(a, known, self.forget)
            D += gains * np.where(known, x - D @ a, 0.0)[:, None]  # (T2)
            self.n_seen_ = self.n_seen_ * self.forget + 1.0
        self.loadings_, self.roots_, self.owner_ = D, memory.roots, memory.owner
        check_result(self.loadings_, self.roots_)
        return self

    @quiet
    def _decomposed(self) -> tuple[Array, Array]:
        """Singular values and right singular vectors (r, d) of the fitted rows: those of R Dᵀ, R of all coordinates."""
        check_is_fitted(self, "loadings_")
        Q, T = np.linalg.qr(self.loadings_)
        strengths = self.roots_[0] @ T.T
        check_result(strengths)
        _, s, W = np.linalg.svd(strengths)
        return s, np.asarray(W @ Q.T)
