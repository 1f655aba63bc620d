"""Soft memory that drifts: what is known of θ as a Gaussian, N(θ, Σ), in covariance and in square-root form.

    S = R + XΣXᵀ = C Cᵀ     e = y − Xθ     w = C⁻¹e     G = ΣXᵀC⁻ᵀ                      (G1)
    θ ← θ + G w     Σ ← Σ − G Gᵀ     log p(y) = −½(wᵀw + log det S + m log 2π)            (G2)
    θ ← A θ     Σ ← A Σ Aᵀ + Q                                                           (G4)
    [√R  XL]     [C  0 ]
    [0    L]  =  [G  L'] · (an orthogonal matrix),  Σ = L Lᵀ                               (G3)
    [AL  √Q]  =  [L' 0] · (an orthogonal matrix)                                         (G5)

The covariance form takes the difference (G2) while the noise is a fair part of S, and where it is not the rotation (G3)
of a root of Σ: it cannot lead below zero. (The sum (I − KX)Σ(I − KX)ᵀ + KRKᵀ, usual there, multiplies the rounding of Σ
by K²: R = 1e-14 made it overflow.) The square-root form never leaves the roots.

An entry of y that is NaN is missing. An entry that θ and the entries before it decide already (a pivot of S that is
rounding and nothing else; it needs R = 0) teaches nothing and is passed over: where exact answers contradict each other
the oldest one wins, as in ICL, and the likelihood is zero.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.kernels.constants import CAREFUL, CONFLICT, DECIDED, LOG_2PI, ROUNDING, SEEN


@cache
def lapack() -> tuple[Any, Any]:
    """potrf and trtri."""
    from scipy.linalg import get_lapack_funcs

    potrf, trtri = get_lapack_funcs(("potrf", "trtri"), dtype=np.float64)
    return potrf, trtri


def symmetric(P: Array) -> Array:
    """P without the asymmetry of rounding."""
    return (P + P.T) / 2


def psd_root(P: Array) -> Array:
    """A square matrix L with L Lᵀ = P; P may be singular, and its coordinates in units of any size."""
    try:
        return np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        from scipy.linalg.lapack import dpstrf

    d = len(P)
    deviations = np.sqrt(np.maximum(np.diag(P), 0))
    units = np.where(deviations > 0, deviations, 1.0)
    C, order, rank, _ = dpstrf(P / np.outer(units, units), lower=1, tol=4 * d * np.finfo(float).eps)
    L = np.zeros((d, d))
    L[order - 1, :rank] = np.tril(C)[:, :rank]
    return np.asarray(L * deviations[:, None])


def semidefinite(P: Array) -> Array:
    """P, without what rounding put below zero."""
    if lapack()[0](P.T, lower=1)[1] == 0:
        return P
    L = psd_root(P)
    return symmetric(L @ L.T)


def least_noise(R: Array) -> float:
    """The smallest pivot of R, 0 where R is singular: how exact the most exact combination of entries is."""
    if not len(R):
        return 0.0
    C, info = lapack()[0](R, lower=1)
    pivots = np.diag(C) ** 2
    singular = info != 0 or (pivots <= len(R) * ROUNDING * np.diag(R)).any()
    return 0.0 if singular else float(pivots.min())


@dataclass(frozen=True, slots=True)
class Gain:
    """What a block of observations does to any Gaussian of this covariance, whatever the answers are."""

    G: Array  # (m, d) Gᵀ, rows of passed-over entries 0
    W: Array  # (m, m) C⁻¹; the row of a passed-over entry gives what its answer is off
    logdet: float
    kinds: Array  # (m,)
    slack: Array  # (m,) how far a passed-over answer may be off
    after: Array  # (d, d) Σ, or its factor, after the block


@dataclass(frozen=True, slots=True)
class Innovation:
    """How the answers differed from what was expected."""

    errors: Array  # y − Xθ, NaN where missing
    square: float  # wᵀw; as many degrees of freedom as entries were seen
    seen: int
    loglik: float  # of the entries seen; −inf where an exact answer contradicts what is known exactly


def exactness(d: int, m: int, least: float, rooted: bool) -> float:
    """The part of its scale below which a variance is taken for zero: none as long as all answers are noisy."""
    tolerance = ROUNDING * (d + m)
    return 0.0 if least > 0 else tolerance**2 if rooted else tolerance


def gain(P: Array, X: Array, R: Array, least: float) -> Gain:
    """Σ = P conditioned on a block X (m, d) with noise R, whose least noise is `least`."""
    m, d = X.shape
    XP = X @ P
    S = symmetric(XP @ X.T) + R
    if least > CAREFUL * S.diagonal().max(initial=0.0):
        C, info = lapack()[0](S.T, lower=1)
        if info == 0:
            W = lapack()[1](C, lower=1)[0]
            G = W @ XP  # (G1)
            logdet = 2 * float(np.log(np.diag(C)).sum())
            return Gain(G, W, logdet, np.full(m, SEEN), np.zeros(m), P - G.T @ G)  # (G2)
    found = root_gain(psd_root(P), X, R, psd_root(R), exactness(d, m, least, rooted=False))
    return replace(found, after=found.after @ found.after.T)


def root_gain(L: Array, X: Array, R: Array, root: Array, tolerance: float) -> Gain:
    """Σ = L Lᵀ conditioned on a block X (m, d) with noise R = root rootᵀ; `after` is the new factor."""
    m, d = X.shape
    active = np.arange(m)
    sizes = np.einsum("ij,ij->i", L, L)
    scale = np.diag(R) + (np.abs(X) @ np.sqrt(sizes)) ** 2  # of the terms of S, before anything cancels
    while True:
        k = len(active)
        before = np.block([[root[active], X[active] @ L], [np.zeros((d, root.shape[1])), L]])
        array = np.asarray(np.linalg.qr(before.T, mode="r")).T  # (G3)
        C = array[:k, :k]
        small = np.flatnonzero(np.diag(C) ** 2 <= tolerance * scale[active])
        if not small.size or not tolerance:
            break
        active = np.delete(active, small[0])
    signs = np.where(np.diag(C) < 0, -1.0, 1.0)
    W, G = np.zeros((m, m)), np.zeros((m, d))
    if k:
        W[np.ix_(active, active)], G[active] = lapack()[1](C * signs, lower=1)[0], (array[k:, :k] * signs).T
    kinds = np.full(m, DECIDED)
    kinds[active] = SEEN
    for i in np.flatnonzero(kinds == DECIDED):
        s = (X[i] @ L) @ (X[active] @ L).T + R[i, active]
        W[i, i], W[i, active] = 1.0, -(s @ W[np.ix_(active, active)].T) @ W[np.ix_(active, active)]
    after = array[k:, k : k + d]
    if tolerance:
        after[np.einsum("ij,ij->i", after, after) <= tolerance * sizes] = 0
    logdet = 2 * float(np.log(np.abs(np.diag(C))).sum())
    return Gain(G, W, logdet, kinds, CONFLICT * np.sqrt(scale), after)


def advanced_root(L: Array, A: Array, root: Array) -> Array:
    """The factor of A L Lᵀ Aᵀ + root rootᵀ."""
    return np.asarray(np.linalg.qr(np.hstack([A @ L, root]).T, mode="r")).T  # (G5)


def moved(mean: Array, X: Array, y: Array, found: Gain) -> tuple[Array, Innovation]:
    """The mean (d,) or (d, c) after answers y (m,) or (m, c), none missing, and how surprising they were."""
    expected = X @ mean
    e = y - expected
    w = found.W @ e
    seen = found.kinds == SEEN
    outputs = 1 if y.ndim == 1 else y.shape[1]
    square = float((w[seen] ** 2).sum())
    loglik = -0.5 * (square + outputs * (found.logdet + seen.sum() * LOG_2PI))
    if not seen.all():
        allowed = CONFLICT * (np.abs(y) + np.abs(expected))
        allowed = allowed + (found.slack if y.ndim == 1 else found.slack[:, None])
        if (np.abs(w) > allowed)[~seen].any():
            loglik = -np.inf
    return mean + found.G[seen].T @ w[seen], Innovation(e, square, int(seen.sum()) * outputs, loglik)  # (G2)


def present(y: Array) -> Array:
    """Which rows of y are there: in a (m, c) block a row with any NaN is missing as a whole."""
    missing = np.isnan(y)
    return np.asarray(~missing if y.ndim == 1 else ~missing.any(axis=1))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(mean, cov); a mean (d, c) is c unknowns that share one covariance."""

    mean: Array  # (d,) or (d, c)
    cov: Array  # (d, d)

    def conditioned(self, X: Array, y: Array, R: Array) -> tuple["Gaussian", Innovation]:
        """Given answers y = Xθ + noise of covariance R."""
        there = present(y)
        if not there.all():
            return _thinned(self, X, y, R, there)  # type: ignore[no-any-return]
        found = gain(self.cov, X, R, least_noise(R))
        mean, innovation = moved(self.mean, X, y, found)
        return Gaussian(mean, semidefinite(found.after)), innovation

    def advanced(self, A: Array, Q: Array) -> "Gaussian":
        """One step later: θ ← Aθ + noise of covariance Q."""
        return Gaussian(A @ self.mean, symmetric(A @ self.cov @ A.T) + Q)  # (G4)


@dataclass(frozen=True, slots=True)
class RootGaussian:
    """N(mean, factor factorᵀ): the same, with nothing ever squared."""

    mean: Array  # (d,) or (d, c)
    factor: Array  # (d, d)

    @property
    def cov(self) -> Array:
        return self.factor @ self.factor.T

    def conditioned(self, X: Array, y: Array, R: Array) -> tuple["RootGaussian", Innovation]:
        """Given answers y = Xθ + noise of covariance R."""
        there = present(y)
        if not there.all():
            return _thinned(self, X, y, R, there)  # type: ignore[no-any-return]
        tolerance = exactness(X.shape[1], len(X), least_noise(R), rooted=True)
        found = root_gain(self.factor, X, R, psd_root(R), tolerance)
        mean, innovation = moved(self.mean, X, y, found)
        return RootGaussian(mean, found.after), innovation

    def advanced(self, A: Array, Q: Array) -> "RootGaussian":
        """One step later: θ ← Aθ + noise of covariance Q."""
        return RootGaussian(A @ self.mean, advanced_root(self.factor, A, psd_root(Q)))


def _thinned(known: Any, X: Array, y: Array, R: Array, there: Array) -> Any:
    """Conditioned on the rows that are there; the errors of the others are NaN."""
    errors = np.full(y.shape, np.nan)
    if not there.any():
        return known, Innovation(errors, 0.0, 0, 0.0)
    after, innovation = known.conditioned(X[there], y[there], R[np.ix_(there, there)])
    errors[there] = innovation.errors
    return after, Innovation(errors, innovation.square, innovation.seen, innovation.loglik)
