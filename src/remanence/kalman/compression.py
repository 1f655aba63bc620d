"""Compression of steps with many more rows than features: d rows with the same likelihood, by an orthogonal matrix.

    R = C Cᵀ     C⁻¹X = U X'     y' = UᵀC⁻¹y     UᵀU = I                                                (C1)
    log p(y | θ) = log N(y'; X'θ, I) − ½(‖C⁻¹y − Uy'‖² + log det R + (m − d) log 2π)                     (C2)

U comes from the QR decomposition of the whitened rows. The posterior of θ is that of y', and what y' does not hold does
not depend on θ. A missing entry is a row of zeros with noise 1.
"""

from dataclasses import dataclass, replace

import numpy as np

from remanence.arrays import Array
from remanence.kalman.model import Steps
from remanence.kernels.constants import CAREFUL, LOG_2PI

PAYS = 2  # from this many rows a feature on; where steps have rows of their own, each with its own QR:
PAYS_PER_STEP = 4
FEWEST = 20  # fewer rows are not worth it
MANY = 100  # more rows always are, if they are many beside d
OFTEN = 0.1  # the share of incomplete steps from which on a steady state is of no use


@dataclass(frozen=True, slots=True)
class Compressed:
    """Steps of d rows, and what they leave of the log-likelihood."""

    steps: Steps
    Y: Array  # (N, T, d)
    there: Array  # (T, d)
    rest: Array  # (N, T) log-likelihood that does not depend on θ


def pays(s: Steps, there: Array) -> bool:
    """Whether compressing is quicker than filtering all rows, and as accurate."""
    m, d = s.X.shape[1:]
    if m < FEWEST:
        return False
    shares = shares_rows(s, there)
    if m < (PAYS if shares else PAYS_PER_STEP) * d:
        return False
    if s.constant and not shares and m <= MANY and _incomplete(there).mean() < OFTEN:
        return False  # the covariances converge, and rows that differ from step to step would hide it
    largest = s.R.diagonal(axis1=1, axis2=2).max(axis=1)
    return bool((s.least_R > CAREFUL * largest)[largest > 0].all() and largest.any())  # whitening amplifies no rounding


def _incomplete(there: Array) -> Array:
    """(T,): which steps miss some of their rows, but not all."""
    return np.asarray(there.all(axis=1) != there.any(axis=1))


def shares_rows(s: Steps, there: Array) -> bool:
    """Whether all steps have the same rows, so that one QR serves all; steps without observations do not matter."""
    return len(s.X) == len(s.R) == 1 and (bool(there.all()) or not _incomplete(there).any())


def compress(s: Steps, Y: Array, there: Array, shared: bool) -> Compressed:
    """The steps of d rows for observations Y (N, T, m) that miss the same entries; `shared`: by one QR for all."""
    N, T, m = Y.shape
    d = s.X.shape[2]
    y = np.where(there, Y, 0.0)
    columns = y.reshape(1, N * T, m).transpose(0, 2, 1) if shared else y.transpose(1, 2, 0)  # (1 or T, m, k)
    both = np.concatenate([np.broadcast_to(s.X, (len(columns), m, d)), columns], axis=2)
    both, logdet = _whitened(s.R, both, np.ones((1, m), bool) if shared else there)
    white = both[..., d:]
    U, small = np.linalg.qr(both[..., :d])  # (C1)
    short = U.transpose(0, 2, 1) @ white  # (1 or T, d, N T or N)
    square = ((white - U @ short) ** 2).sum(axis=1)
    if len(short) == 1:
        answers, square = short[0].T.reshape(N, T, d), square.reshape(N, T)
    else:
        answers, square = short.transpose(2, 0, 1), square.T
    seen = there.sum(axis=1)
    rest = np.where(seen > 0, -0.5 * (square + logdet + (seen - d) * LOG_2PI), 0.0)  # (C2)
    known = np.repeat((seen > 0)[:, None], d, axis=1)
    steps = replace(s, X=small, R=np.eye(d)[None], rows=np.full(len(small), d), least_R=np.ones(1))
    return Compressed(steps, np.where(known, answers, np.nan), known, rest)


def _whitened(R: Array, rows: Array, there: Array) -> tuple[Array, Array]:
    """C⁻¹ of the rows (1 or T, m, k) that are there, and log det R (1 or T,); `rows` may be overwritten."""
    scale = np.sqrt(R.diagonal(axis1=1, axis2=2))
    if np.count_nonzero(R) == np.count_nonzero(scale):  # independent noise
        scale = np.where(there, scale, 1.0)
        rows *= (there / scale)[..., None]
    else:
        if not there.all():
            R = np.where(there[..., None] & there[:, None, :], R, np.eye(R.shape[1]))
            rows *= there[..., None]
        C = np.linalg.cholesky(R)
        rows, scale = np.linalg.solve(C, rows), C.diagonal(axis1=1, axis2=2)
    return rows, 2 * np.log(scale).sum(axis=1)
