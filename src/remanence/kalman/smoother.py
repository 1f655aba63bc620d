"""The Rauch–Tung–Striebel smoother: estimates of every state from all observations (positive backward transfer).

    L_{j−1} = Σ_{j−1|j−1} A_jᵀ Σ_{j|j−1}⁺                                                      (RTS1)
    θ_{j−1|k} = θ_{j−1|j−1} + L (θ_{j|k} − θ_{j|j−1})
    Σ_{j−1|k} = Σ_{j−1|j−1} + L (Σ_{j|k} − Σ_{j|j−1}) Lᵀ                                         (RTS2)
              = (I − L A_j) Σ_{j−1|j−1} (I − L A_j)ᵀ + L Q_j Lᵀ + L Σ_{j|k} Lᵀ                     (RTS3)
    N_j = ZᵀZ + (I − KX)ᵀ A_{j+1}ᵀ N_{j+1} A_{j+1} (I − KX),  Z = C⁻¹X     the information of y_j.. about θ_j
    Σ_{j−1|k} = Σ_{j−1|j−1} − Σ_{j−1|j−1} A_jᵀ N_j A_j Σ_{j−1|j−1}                                (RTS4)

Where Q is small the sum (RTS3) is used, so that rounding makes no covariance indefinite. Σ_{j|j−1} may be singular: a
coordinate of θ_j that is determined by others is skipped, since it adds no information. If it is nearly singular and L
so large that L² amplifies rounding, (RTS4) is used, which needs no L. It is also used for wide models that change from
step to step and have few observations a step, where it is faster (information.py); L is then computed on request.
"""

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.complex.pairs import complex_states, pairs_of
from remanence.kalman.filter import check_model
from remanence.kalman.gains import SMALL, Gains, at, moved, near, ulps
from remanence.kalman.information import AMPLIFIED, saves_work, smooth_by_information
from remanence.kalman.means import is_wide
from remanence.kalman.model import LinearGaussian
from remanence.kalman.results import Filtered, Smoothed, join_groups, shared
from remanence.kernels.constants import CAREFUL, DOUBTFUL, FAR, FAST, ROUNDING, SEEN, STRETCH
from remanence.kernels.kalman import smoothed_covariances, smoothed_means
from remanence.memory.gaussian import lapack, semidefinite, symmetric
from remanence.methods.signals.real_pairs import complex_matrix


def smooth(model: LinearGaussian, filtered: Filtered) -> Smoothed:
    """Run the Rauch–Tung–Striebel smoother: the estimate of every state given all observations.

    Parameters
    ----------
    model : LinearGaussian
        The model that was filtered; for `extended`, the `.model` of its result.
    filtered : Filtered
        The result of `filter` or `extended`.

    Returns
    -------
    Smoothed
        θ_{t|T} with its covariance, and the gains, which wide models that change from step to step compute when they
        are first asked for: until then the result refers to the covariances of `filtered`.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> model = kalman.LinearGaussian(
    ...     A=np.eye(2), Q=0.1 * np.eye(2), X=np.eye(2), R=np.eye(2), mean=np.zeros(2), cov=np.eye(2)
    ... )
    >>> theta, Y = kalman.sample(model, 300, seed=0)
    >>> found = kalman.filter(model, Y)
    >>> better = kalman.smooth(model, found)
    >>> bool(((better.mean - theta) ** 2).mean() < ((found.mean - theta) ** 2).mean())
    True

    References
    ----------
    Rauch, Tung and Striebel (1965), "Maximum likelihood estimates of linear dynamic systems", AIAA Journal.
    """
    check_filtered(model, filtered)
    check_all_kept(filtered, "the smoother")
    if model.pairs is not None:
        real = smooth(model.pairs, pairs_of(filtered))
        return Smoothed(*complex_states(real.mean, real.cov), complex_matrix(real.gain))
    many, s = filtered.many, model.steps
    if filtered.whitened is not None and filtered.gains is not None and saves_work(s, 1):
        own = filtered.gains[0]
        found = smooth_by_information(s, own, filtered.whitened, writeable(filtered.mean[0] if many else filtered.mean))
        if found is not None:
            mean, cov = (v[None] if many else v for v in found)
            return Smoothed.deferring(mean, cov, lambda: _gains_of(model, own, many))
    mean, before = (v if many else v[None] for v in (filtered.mean, filtered.predicted_mean))
    covs: list[Array] = []
    gains, means = [], []
    for group in filtered.groups:
        first = group[0]
        F, P = (writeable(v[first] if many else v) for v in (filtered.cov, filtered.predicted_cov))
        cov, L = _covariances(model, F, P, None if filtered.gains is None else filtered.gains[len(covs)])
        covs.append(cov)
        gains.append(L)
        one = len(filtered.groups) == 1
        means.append(_means(L, *(v if one else v[group] for v in (mean, before))))
    cov, gain = (shared(v, filtered.groups, many) for v in (covs, gains))
    mean = join_groups(means, filtered.groups)
    return Smoothed(mean if many else mean[0], cov, gain)


def _gains_of(model: LinearGaussian, found: Gains, many: bool) -> Array:
    L = backward_gains(model, found.filtered, found.predicted)
    return L[None] if many else L


def writeable(array: Array) -> Array:
    """The array as the kernels take it: float64, contiguous."""
    return np.require(array, np.float64, ["C", "W"])


def check_filtered(model: LinearGaussian, filtered: Filtered) -> None:
    check_model(model)
    if not isinstance(filtered, Filtered):
        raise InputError(f"expected what kalman.filter returned, got {type(filtered).__name__}; filter first")
    T, d = filtered.mean.shape[-2:]
    if d != model.features:
        raise InputError(
            f"expected a result of {model.features} features, as the model has, got {d}; pass its own model"
        )
    if model.length is not None and model.length < T:
        raise InputError(
            f"expected a model of at least {T} steps, as were filtered, got {model.length}; pass its own model"
        )


def check_all_kept(filtered: Filtered, who: str) -> None:
    """Raise InputError where only the covariances of the last step were kept."""
    kept, T = filtered.cov.shape[-3], filtered.mean.shape[-2]
    if kept != T:
        raise InputError(
            f"expected the covariances of all {T} steps, which {who} needs, got those of the last step only; "
            f'filter with keep="all"'
        )


def backward_gains(model: LinearGaussian, filtered: Array, predicted: Array) -> Array:
    """L (T − 1, d, d) of (RTS1) from the covariances of the filter."""
    return _covariances(model, filtered, predicted)[1]


def _covariances(model: LinearGaussian, F: Array, P: Array, gains: Gains | None = None) -> tuple[Array, Array]:
    s = model.steps
    constant = len(s.A) == len(s.Q) == 1
    if model.features > SMALL:
        smoothed, L = _by_lapack(model, F, P, constant)
        worst = max((_amplified(L[t], P[t + 1], P[t]) for t in range(len(L))), default=0.0)
    else:
        smoothed, L = np.empty((2, *F.shape))
        L = L[:-1]
        worst = smoothed_covariances(s.A, s.Q, s.least_Q, F, P, constant, ulps(model.features), smoothed, L)
    if worst > AMPLIFIED and gains is not None:
        return _by_lapack(model, F, P, False, _information(model, gains))
    return smoothed, L


def _amplified(L: Array, P: Array, before: Array) -> float:
    """By how much L P Lᵀ amplifies rounding: what it adds up, as a multiple of the Σ_{t|t−1} that Σ_{t|t} came from."""
    sizes, there = (np.abs(L) @ np.sqrt(np.diag(P))) ** 2, np.diag(before)
    return float((sizes[there > 0] / there[there > 0]).max(initial=0.0))


def _information(model: LinearGaussian, gains: Gains) -> Array:
    """N (T, d, d) of (RTS4)."""
    s = model.steps
    T, d = gains.predicted.shape[:2]
    N = np.empty((T, d, d))
    for t in range(T - 1, -1, -1):
        Z = (gains.W[t] @ at(s.X if gains.X is None else gains.X, t)) * (gains.kinds[t] == SEEN)[:, None]
        N[t] = Z.T @ Z
        if t < T - 1:
            B = at(s.A, t + 1) @ (np.eye(d) - gains.G[t].T @ Z)
            N[t] += symmetric(B.T @ N[t + 1] @ B)
    return N


def _by_lapack(
    model: LinearGaussian, F: Array, P: Array, constant: bool, information: Array | None = None
) -> tuple[Array, Array]:
    s = model.steps
    T, d = F.shape[:2]
    smoothed, L = np.empty(F.shape), np.empty((T - 1, d, d))
    smoothed[-1] = F[-1]
    mark, stride, last, frozen = T - 1, STRETCH, int(FAR), False
    rest: Array | None = None
    for t in range(T - 2, -1, -1):
        same = constant and t < T - 2 and near(F[t], F[t + 1], 0.0) and near(P[t + 1], P[t + 2], 0.0)
        if same and frozen:
            L[t], smoothed[t] = L[t + 1], smoothed[t + 1]
            continue
        frozen = False
        if same:
            L[t] = L[t + 1]
        else:
            mark, stride, last = t, STRETCH, int(FAR)
            L[t], rest = _gain(at(s.A, t + 1), at(s.Q, t + 1), float(at(s.least_Q, t + 1)), F[t], P[t + 1])
        if rest is None:
            smoothed[t] = symmetric(L[t] @ (smoothed[t + 1] - P[t + 1]) @ L[t].T + F[t])  # (RTS2)
        else:
            smoothed[t] = symmetric(L[t] @ smoothed[t + 1] @ L[t].T + rest)  # (RTS3)
        if information is not None and _amplified(L[t], P[t + 1], P[t]) > AMPLIFIED:
            M = at(s.A, t + 1) @ F[t]
            if _amplified(M.T, information[t + 1], P[t]) < _amplified(L[t], P[t + 1], P[t]):
                smoothed[t] = semidefinite(symmetric(F[t] - M.T @ information[t + 1] @ M))  # (RTS4)
        if same:
            old = mark - t >= 8 * ulps(d)
            if near(smoothed[t], smoothed[t + 1], 0.0) or (old and near(smoothed[t], smoothed[mark], ulps(d))):
                frozen = True
            elif mark - t >= stride:
                now = moved(smoothed[t], smoothed[mark])
                if FAST * now > last:
                    stride *= 2
                elif 2 * now <= ulps(d):
                    frozen = True
                mark, last = t, now
    return smoothed, L


def _gain(A: Array, Q: Array, least: float, F: Array, P: Array) -> tuple[Array, Array | None]:
    """L, and where Q is small the part of (RTS3) that the future does not change."""
    from scipy.linalg.blas import dtrsm
    from scipy.linalg.lapack import dpstrf

    d = len(P)
    across = (A @ F).T  # Σ_{j−1|j−1} Aᵀ
    C, info = lapack()[0](P.T, lower=1)
    order = np.arange(d)
    if info or (np.diag(C) ** 2 <= DOUBTFUL * np.diag(P)).any():
        scale = np.sqrt(np.where(np.diag(P) > 0, np.diag(P), 1.0))
        C, order, rank, _ = dpstrf(P / np.outer(scale, scale), lower=1, tol=ROUNDING * d)
        order = order[:rank] - 1
        C = np.tril(C)[:rank, :rank] * scale[order, None]
    half = dtrsm(1.0, C, across[:, order], side=1, lower=1, trans_a=1)
    L = np.zeros((d, d))
    L[:, order] = dtrsm(1.0, C, half, side=1, lower=1)  # (RTS1)
    if least > CAREFUL * float(np.diag(P).max()):
        return L, None
    B = np.eye(len(A)) - L @ A
    return L, B @ F @ B.T + L @ Q @ L.T


def _means(L: Array, filtered: Array, predicted: Array) -> Array:
    N, T, d = filtered.shape
    if not is_wide(N, d):
        smoothed = np.empty(filtered.shape)
        smoothed_means(L, writeable(filtered), writeable(predicted), smoothed)
        return smoothed
    smoothed = np.empty((T, N, d))
    smoothed[-1] = filtered[:, -1]
    for t in range(T - 2, -1, -1):
        np.matmul(smoothed[t + 1] - predicted[:, t + 1], L[t].T, out=smoothed[t])
        smoothed[t] += filtered[:, t]
    return smoothed.transpose(1, 0, 2)
