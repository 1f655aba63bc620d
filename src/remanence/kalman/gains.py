"""Covariances and gains of the filter, which depend only on which observations are present.

Small models run in the compiled loop, larger ones by LAPACK a step, the square-root form by QR a step. Where A, Q, X, R
are constant and nothing is missing the covariances converge; once they stand still to rounding they are kept:

    stop when Σ_{t|t} equals Σ_{t−1|t−1} bit by bit, or lies within u roundings of what it was 8u or more steps before

A drift that arithmetic can see at all moves half a rounding a step, so what still moves is not taken for standing.

The steps may be computed in parts, of which only the last is kept: the part's first step is then the last of the part
before, and `Carried` holds what else goes on. The numbers do not depend on the parts.
"""

from dataclasses import dataclass, replace

import numpy as np

from remanence.arrays import Array
from remanence.kalman.model import LinearGaussian, Steps
from remanence.kernels.constants import FAR, FAST, MISSING, STRETCH
from remanence.kernels.kalman import covariances
from remanence.memory.gaussian import Gain, advanced_root, exactness, gain, psd_root, root_gain, semidefinite, symmetric

SMALL = 100  # up to this many features (and entries) the compiled loop is faster than LAPACK a step


@dataclass(frozen=True, slots=True)
class Gains:
    """The covariances of the filter and what it takes to move means."""

    predicted: Array  # (T, d, d)
    filtered: Array  # (T, d, d)
    G: Array  # (T, m, d)
    W: Array  # (T, m, m)
    logdet: Array  # (T,)
    kinds: Array  # (T, m) MISSING, SEEN or DECIDED
    slack: Array  # (T, m)
    settled: int  # the step from which on nothing changes, T if there is none
    X: Array | None = None  # (1 or T, m, d) the rows behind G and W, where the model's were compressed

    @classmethod
    def empty(cls, T: int, m: int, d: int) -> "Gains":
        """Storage for T steps of m rows."""
        predicted, filtered = np.empty((2, T, d, d))  # in one piece: two are handed back to the system at every call
        kinds, slack = np.zeros((T, m), np.int64), np.zeros((T, m))
        return cls(predicted, filtered, np.empty((T, m, d)), np.empty((T, m, m)), np.zeros(T), kinds, slack, T)

    @property
    def parts(self) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
        return self.predicted, self.filtered, self.G, self.W, self.logdet, self.kinds, self.slack

    def at(self, steps: slice) -> "Gains":
        """Views of some steps."""
        predicted, filtered, G, W, logdet, kinds, slack = (part[steps] for part in self.parts)
        return Gains(predicted, filtered, G, W, logdet, kinds, slack, len(G))

    def repeat(self, t: int, source: int) -> None:
        """Make step t a copy of another step."""
        for part in self.parts:
            part[t] = part[source]


@dataclass(frozen=True, slots=True)
class Carried:
    """What a run over the steps carries from one part to the next; its arrays are written to."""

    root: Array  # (d, d) of Σ, in square-root form
    progress: (
        Array  # (4,) step of the reference, steps to the next, whether nothing changes, roundings of the last change
    )
    reference: Array  # (d, d) the covariance that later ones are compared with

    @classmethod
    def start(cls, cov: Array) -> "Carried":
        return cls(psd_root(cov), np.array([0, STRETCH, 0, FAR], np.int64), np.zeros(cov.shape))


def ulps(d: int) -> float:
    """How many roundings two covariances that stand still may differ by."""
    return max(4.0, d / 4)


def compute(model: LinearGaussian, there: Array, form: str, steady: bool = True) -> Gains:
    """All covariances and gains for the entries that are `there` (T, m)."""
    s, cov = model.steps, model.cov
    out = Gains.empty(len(there), there.shape[1], model.features)
    return compute_part(s, cov, there, form, s.constant and steady, out, 0, Carried.start(cov))


def compute_part(
    s: Steps, cov: Array, there: Array, form: str, constant: bool, out: Gains, first: int, carried: Carried
) -> Gains:
    """Covariances and gains of the steps from `first` on, written into `out`; the steps before are there."""
    d, rooted = len(cov), form == "root"
    if max(d, there.shape[1]) > SMALL:
        if not rooted:
            return replace(out, settled=_by_lapack(s, cov, there, out, constant, first, carried))
        _by_roots(s, there, out, first, carried)
        return out
    settled = covariances(
        s.A, s.Q, s.X, s.R, roots(s.Q) if rooted else s.Q, roots(s.R), s.least_Q, s.least_R,
        cov, carried.root, there, rooted, constant, ulps(d), *out.parts, first, carried.progress, carried.reference,
    )  # fmt: skip
    return replace(out, settled=settled)


def at(stack: Array, t: int) -> Array:
    """The entry of step t of a stack that is constant (length 1) or has one entry per step."""
    return np.asarray(stack[t if len(stack) > 1 else 0])


def _store(out: Gains, t: int, there: Array, found: Gain) -> None:
    """Put the gain of the entries that are there in their places."""
    which = np.flatnonzero(there)
    out.G[t, which], out.logdet[t] = found.G, found.logdet
    out.W[t][np.ix_(which, which)] = found.W
    out.kinds[t, which], out.slack[t, which] = found.kinds, found.slack


def _clear(out: Gains, t: int) -> None:
    out.G[t], out.W[t], out.kinds[t] = 0, 0, MISSING


def _block(s: Steps, t: int, there: Array) -> tuple[Array, Array]:
    X, R = at(s.X, t), at(s.R, t)
    return (X, R) if there.all() else (X[there], R[np.ix_(there, there)])


def near(P: Array, B: Array, allowed: float) -> bool:
    """Whether two covariances differ by no more than `allowed` roundings."""
    if not allowed:
        return np.array_equal(P, B)
    gap = np.abs(P - B)
    deviations = np.sqrt(np.diag(P))
    return bool((gap <= allowed * np.finfo(float).eps * np.outer(deviations, deviations)).all())


def moved(P: Array, B: Array) -> int:
    """How many roundings two covariances differ by at most."""
    deviations = np.sqrt(np.diag(P))
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(P - B) / np.outer(deviations, deviations)
    largest = np.max(gaps, initial=0.0, where=P != B) / np.finfo(float).eps
    return int(largest if largest < FAR else FAR)


def _by_lapack(s: Steps, cov: Array, there: Array, out: Gains, constant: bool, first: int, carried: Carried) -> int:
    T, d = len(there), len(cov)
    mark, stride, frozen, last = map(int, carried.progress)
    settled = 0 if frozen else T
    for t in range(first, T):
        full = bool(there[t].all())
        if frozen and full:
            out.repeat(t, t - 1)
            continue
        frozen = 0
        if t:
            A = at(s.A, t)
            P = symmetric(A @ out.filtered[t - 1] @ A.T)
            P += at(s.Q, t)
        else:
            P = cov
        out.predicted[t] = P
        _clear(out, t)
        if there[t].any():
            found = gain(P, *_block(s, t, there[t]), float(at(s.least_R, t)))
            out.filtered[t] = found.after
            _store(out, t, there[t], found)
        else:
            out.filtered[t] = P
        if not float(at(s.least_Q, t)):
            out.filtered[t] = semidefinite(out.filtered[t])
        F, old = out.filtered[t], t - mark >= 8 * ulps(d)
        if not constant or not full:
            mark, settled, stride, last = t + 1, T, STRETCH, int(FAR)
        elif t == mark:
            carried.reference[:] = F
        elif near(F, out.filtered[t - 1], 0.0) or (old and near(F, carried.reference, ulps(d))):
            frozen, settled = 1, t
        elif t - mark >= stride:
            now = moved(F, carried.reference)
            if FAST * now > last:
                stride *= 2
            elif 2 * now <= ulps(d):  # what is still to come is FAST times less
                frozen, settled = 1, t
            mark, last = t, now
            carried.reference[:] = F
    carried.progress[:] = mark - (T - 1), stride, frozen, last
    return settled


def roots(stack: Array) -> Array:
    """A root of every covariance in a stack."""
    try:
        return np.linalg.cholesky(stack)
    except np.linalg.LinAlgError:
        return np.array([psd_root(P) for P in stack])


def _by_roots(s: Steps, there: Array, out: Gains, first: int, carried: Carried) -> None:
    roots_Q, roots_R = roots(s.Q), roots(s.R)
    L, m = carried.root, there.shape[1]
    d = len(L)
    for t in range(first, len(there)):
        if t:
            L = advanced_root(L, at(s.A, t), at(roots_Q, t))
        out.predicted[t] = L @ L.T
        _clear(out, t)
        if there[t].any():
            X, R = _block(s, t, there[t])
            tolerance = exactness(d, m, float(at(s.least_R, t)), rooted=True)
            found = root_gain(L, X, R, at(roots_R, t)[there[t]], tolerance)
            L = found.after
            _store(out, t, there[t], found)
        out.filtered[t] = L @ L.T
    carried.root[:] = L
