"""The means of the filter: those of every series from the gains that the series share."""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array
from remanence.kalman.gains import Gains, at
from remanence.kalman.model import Steps
from remanence.kernels.constants import CONFLICT, DECIDED, LOG_2PI, SEEN
from remanence.kernels.kalman import means

WIDE = 64  # from this many numbers per step (series × features) on, matrix products beat the compiled loop


@dataclass(frozen=True, slots=True)
class Means:
    """The means of N series; where the series are many, views of arrays whose first axis is time."""

    predicted: Array  # (N, T, d)
    filtered: Array  # (N, T, d)
    logliks: Array  # (N, T)

    @classmethod
    def empty(cls, N: int, T: int, d: int) -> "Means":
        if is_wide(N, d):
            predicted, filtered = np.empty((2, T, N, d))
            return cls(predicted.transpose(1, 0, 2), filtered.transpose(1, 0, 2), np.empty((T, N)).T)
        return cls(np.empty((N, T, d)), np.empty((N, T, d)), np.empty((N, T)))

    def at(self, series: slice, part: slice) -> "Means":
        """Views."""
        return Means(self.predicted[series, part], self.filtered[series, part], self.logliks[series, part])


def is_wide(N: int, d: int) -> bool:
    return N > 1 and N * d >= WIDE


def move(s: Steps, start: Array, gains: Gains, Y: Array, out: Means, first: int) -> None:
    """The means and log-likelihoods from step `first` on, written into `out`."""
    N, _, d = out.filtered.shape
    if is_wide(N, d):
        return _move_many(s, start, gains, Y, out, first)
    whole = Y.flags.c_contiguous and out.filtered.flags.c_contiguous
    for series in (slice(None),) if whole else (slice(n, n + 1) for n in range(N)):
        own = out.at(series, slice(None))
        means(
            s.A, s.X, np.require(Y[series], requirements=["C"]), start, gains.G, gains.W, gains.logdet, gains.kinds,
            gains.slack, own.predicted, own.filtered, own.logliks, first,
        )  # fmt: skip


def _move_many(s: Steps, start: Array, gains: Gains, Y: Array, out: Means, first: int) -> None:
    """All series, one step at a time."""
    predicted, filtered, logliks = out.predicted.transpose(1, 0, 2), out.filtered.transpose(1, 0, 2), out.logliks.T
    observed = np.where(np.isnan(Y), 0.0, Y).transpose(1, 0, 2).copy()
    for t in range(first, len(predicted)):
        if t:
            np.matmul(filtered[t - 1], at(s.A, t).T, out=predicted[t])
        else:
            predicted[0] = start
        seen = gains.kinds[t] == SEEN
        expected = predicted[t] @ at(s.X, t).T
        w = (observed[t] - expected) @ gains.W[t].T
        inside = w if seen.all() else np.where(seen, w, 0.0)
        np.matmul(inside, gains.G[t], out=filtered[t])
        filtered[t] += predicted[t]  # (G2)
        square = np.einsum("ij,ij->i", inside, inside)
        decided = gains.kinds[t] == DECIDED
        if decided.any():
            allowed = gains.slack[t] + CONFLICT * (np.abs(observed[t]) + np.abs(expected))
            square[((np.abs(w) > allowed) & decided).any(axis=1)] = np.inf
        logliks[t] = -0.5 * (square + gains.logdet[t] + seen.sum() * LOG_2PI)
