"""Estimate A, Q, R, mean and cov by expectation-maximization (EM), with the smoother.

    E    mₜ, Pₜ of the smoother,  Cₜ = cov(θₜ, θₜ₋₁ | Y) = Pₜ Lₜ₋₁ᵀ                                   (E1)
    S₀ = Σ Pₜ₋₁ + mₜ₋₁mₜ₋₁ᵀ     S₁ = Σ Cₜ + mₜmₜ₋₁ᵀ                                                (E2)
    A = S₁ S₀⁺     diagonal: (Q⁻¹ ∘ S₀) a = diag(Q⁻¹S₁)     scalar: a = tr(Q⁻¹S₁) / tr(Q⁻¹S₀)              (A)
    Q = mean of E (θₜ − Aθₜ₋₁)(·)ᵀ     R = mean of E (yₜ − Xθₜ)(·)ᵀ     diagonal, scalar: of that            (Q, R)
    E vvᵀ = B E vₒvₒᵀ Bᵀ + cov(vᵤ | vₒ),  B = [I; Rᵤₒ Rₒₒ⁺]                                         (M)

(M) is for observations of which only the entries o are present. A diagonal or scalar R uses those alone, and a step
without observations does not contribute to R. A is maximized given Q, then Q given A (the joint maximum if A is full),
so the likelihood never falls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.kalman.complex.pairs import refuse_complex
from remanence.kalman.filter import check_model, filter
from remanence.kalman.model import LinearGaussian
from remanence.kalman.observations import Observations, check_observations, patterns
from remanence.kalman.results import Filtered, Smoothed
from remanence.kalman.smoother import smooth
from remanence.memory.gaussian import symmetric
from remanence.progress import progress_bar
from remanence.validation import check_count, check_number

PARTS = ("A", "Q", "R", "mean", "cov")
SHAPES = ("full", "diagonal", "scalar")
NO_DRIFT = 1e-12  # part of the drift's size that a direction without drift is taken to have, to weigh (A)


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Result of `learn`: the estimated model and the log-likelihood of every iteration.

    Parameters
    ----------
    model : LinearGaussian
        The estimated model.
    logliks : array (iterations + 1,)
        Log-likelihood of all series together: at the start, then after every iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> guess = kalman.LinearGaussian(A=np.eye(1), Q=np.eye(1), X=np.eye(1), R=np.eye(1), mean=[0.0], cov=np.eye(1))
    >>> _, Y = kalman.sample(guess, 50, seed=0)
    >>> learned = kalman.learn(guess, Y, iterations=5)
    >>> bool((np.diff(learned.logliks) >= 0).all())
    True
    """

    model: LinearGaussian
    logliks: Array  # (iterations + 1,)


def learn(
    model: LinearGaussian,
    Y: Any,
    iterations: int = 100,
    parts: Sequence[str] = PARTS,
    shape: Mapping[str, str] | None = None,
    tolerance: float = 1e-8,
) -> Learned:
    """Estimate the parameters of a model by EM; the likelihood rises with every iteration.

    A parameter that is zero at the start stays zero.

    Parameters
    ----------
    model : LinearGaussian
        The initial guess.
    Y : array (T, m) or (N, T, m)
        The observations; NaN entries are missing.
    iterations : int
        The largest number of iterations.
    parts : sequence of str
        The parameters to estimate, of "A", "Q", "R", "mean", "cov"; they must be constant. The others are kept.
    shape : dict, optional
        Restricts A, Q or R to "diagonal" or "scalar" (times I); the initial guess is converted first.
    tolerance : float
        Stop when an iteration increases the log-likelihood by less than this fraction, or would decrease it.

    Returns
    -------
    Learned
        The model, and the log-likelihood of every iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> true = kalman.LinearGaussian(
    ...     A=np.eye(2), Q=0.02 * np.eye(2), X=np.eye(2), R=0.5 * np.eye(2), mean=np.zeros(2), cov=np.eye(2)
    ... )
    >>> theta, Y = kalman.sample(true, 200, seed=1)
    >>> guess = kalman.LinearGaussian(true.A, np.eye(2), true.X, np.eye(2), true.mean, true.cov)
    >>> learned = kalman.learn(guess, Y, iterations=20, parts=("Q", "R"), shape={"Q": "scalar", "R": "scalar"})
    >>> bool(learned.logliks[-1] > learned.logliks[0])
    True

    References
    ----------
    Shumway and Stoffer (1982), "An approach to time series smoothing and forecasting using the EM algorithm", Journal
    of Time Series Analysis.
    """
    check_model(model)
    refuse_complex(model, "kalman.learn")
    if model.pushes is not None:
        raise InputError("expected a model without inputs to learn, got B and u; subtract what they do from Y first")
    observed = check_observations(model, Y)
    iterations = check_count(iterations, "iterations")
    tolerance = check_number(tolerance, "tolerance", closed=True, hint="relative to the log-likelihood, like 1e-8")
    parts = _check_parts(model, parts, observed.Y.shape[1])
    shapes = _check_shape(shape, parts)
    values: dict[str, Any] = {name: getattr(model, name) for name in ("A", "Q", "X", "R", "mean", "cov")}
    model = LinearGaussian(**values | {name: _shaped(values[name], kind) for name, kind in shapes.items()})
    filtered = filter(model, Y)
    logliks = [_total(filtered)]
    with progress_bar("Learning the model", iterations) as advance:
        for _ in range(iterations):
            better = _maximised(model, observed, smooth(model, filtered), parts, shapes)
            try:
                candidate = LinearGaussian(**values | better)
                found = filter(candidate, Y)
            except (InputError, NumericalError, np.linalg.LinAlgError):  # a noise too small for arithmetic
                break
            loglik = _total(found)
            if not np.isfinite(loglik) or loglik < logliks[-1]:
                break
            model, filtered = candidate, found
            logliks.append(loglik)
            advance(1)
            if logliks[-1] - logliks[-2] <= tolerance * abs(logliks[-1]):
                break
    return Learned(model, np.array(logliks))


def _total(filtered: Filtered) -> float:
    return float(filtered.logliks.sum())


def _check_parts(model: LinearGaussian, parts: Any, T: int) -> tuple[str, ...]:
    names = (parts,) if isinstance(parts, str) else tuple(parts) if isinstance(parts, Sequence) else (parts,)
    if not names or any(not isinstance(name, str) or name not in PARTS for name in names):
        raise InputError(f'expected parts to be some of {PARTS}, got {parts!r}; like ("Q", "R")')
    for name in ("A", "Q", "R"):
        value = getattr(model, name)
        if name in names and (isinstance(value, tuple) or value.ndim == 3):
            rest = tuple(n for n in names if n != name)
            raise InputError(
                f"expected a constant {name} to learn it, got one per step; leave it out, like parts={rest}"
            )
    if "A" in names and model.Q.ndim == 3:
        raise InputError('expected a constant Q to learn A, got one per step; leave "A" out of parts, or give one Q')
    if T == 1 and {"A", "Q"} & set(names):
        raise InputError("expected at least two steps to learn A or Q, got 1; leave them out of parts")
    return names


def _check_shape(shape: Any, parts: tuple[str, ...]) -> dict[str, str]:
    wanted = {} if shape is None else shape
    if not isinstance(wanted, Mapping) or any(not isinstance(v, str) or v not in SHAPES for v in wanted.values()):
        raise InputError(f'expected shape to give A, Q or R one of {SHAPES}, got {shape!r}; like {{"Q": "diagonal"}}')
    allowed = [name for name in ("A", "Q", "R") if name in parts]
    if not set(wanted) <= set(allowed):
        raise InputError(f"expected shape for parts that are learned, {allowed}, got {sorted(map(str, wanted))}")
    return {name: wanted.get(name, "full") for name in allowed}


def _shaped(M: Array, kind: str) -> Array:
    """The best matrix of a kind for a covariance whose full estimate is M."""
    if kind == "full":
        return M
    return np.diag(np.diag(M)) if kind == "diagonal" else float(np.trace(M)) / len(M) * np.eye(len(M))


def _positive(M: Array) -> Array:
    """M, which is a covariance up to rounding, as one."""
    M = symmetric(M)
    values, vectors = np.linalg.eigh(M)
    return M if not len(M) or values[0] >= 0 else symmetric((vectors * np.maximum(values, 0)) @ vectors.T)


def _maximised(
    model: LinearGaussian, observed: Observations, s: Smoothed, parts: tuple[str, ...], shapes: dict[str, str]
) -> dict[str, Array]:
    """The parts that make the expected log-likelihood of θ and Y largest."""
    N = len(observed.Y)
    mean = s.mean if observed.many else s.mean[None]
    better = {"A": model.A, "Q": model.Q, "R": model.R, "mean": model.mean, "cov": model.cov}
    if "A" in parts or "Q" in parts:
        better |= _transition(model, observed, s, mean, shapes)
    if "R" in parts:
        better["R"] = _noise(model, observed, s, mean, shapes["R"])
    if "mean" in parts:
        better["mean"] = mean[:, 0].mean(axis=0)
    if "cov" in parts:
        away = mean[:, 0] - better["mean"]
        first = sum(len(group) * _of(s.cov, group, observed)[0] for group in observed.groups)
        better["cov"] = _positive((away.T @ away + first) / N)
    return better


def _of(stack: Array, group: Array, observed: Observations) -> Array:
    """The covariances (or gains) that the series of a group share."""
    return np.asarray(stack[group[0]] if observed.many else stack)


def _transition(
    model: LinearGaussian, observed: Observations, s: Smoothed, mean: Array, shapes: dict[str, str]
) -> dict[str, Array]:
    N, T, d = mean.shape
    P0, P1, C = np.zeros((3, d, d))
    for group in observed.groups:
        cov, L = _of(s.cov, group, observed), _of(s.gain, group, observed)
        P0 += len(group) * cov[:-1].sum(axis=0)
        P1 += len(group) * cov[1:].sum(axis=0)
        C += len(group) * np.einsum("tij,tkj->ik", cov[1:], L)  # (E1)
    before, after = mean[:, :-1].reshape(-1, d), mean[:, 1:].reshape(-1, d)
    better = {}
    A = model.A
    if "A" in shapes:
        S0, S1 = P0 + before.T @ before, C + after.T @ before  # (E2)
        A = better["A"] = _dynamics(model, S0, S1, shapes["A"])
    if "Q" in shapes:
        if A.ndim == 2:
            moved = after - before @ A.T
            spread = P1 - A @ C.T - C @ A.T + A @ P0 @ A.T
        else:
            moved, spread = _stepwise(A, observed, s, mean)
        better["Q"] = _shaped(_positive((moved.T @ moved + spread) / (N * (T - 1))), shapes["Q"])
    return better


def _stepwise(A: Array, observed: Observations, s: Smoothed, mean: Array) -> tuple[Array, Array]:
    """Mean and covariance of the process noise if A is given per step."""
    d = mean.shape[2]
    moved = mean[:, 1:] - np.einsum("tij,ntj->nti", A[1:], mean[:, :-1])
    spread = np.zeros((d, d))
    for group in observed.groups:
        cov, L = _of(s.cov, group, observed), _of(s.gain, group, observed)
        AC = A[1:] @ L @ cov[1:]
        spread += len(group) * (cov[1:] - AC - AC.transpose(0, 2, 1) + A[1:] @ cov[:-1] @ A[1:].transpose(0, 2, 1)).sum(
            axis=0
        )
    return moved.reshape(-1, d), spread


def _dynamics(model: LinearGaussian, S0: Array, S1: Array, kind: str) -> Array:
    """A (A); directions in which θ never lies say nothing of it, there it keeps what it had."""
    d = len(S0)
    if kind == "full":
        return np.asarray(model.A + (S1 - model.A @ S0) @ _inverse(S0))
    own = np.diag(model.Q)
    size = float(own.max())
    weight = (
        np.linalg.inv(model.Q / size + NO_DRIFT * np.diag(np.where(own > 0, own / size, 1.0))) if size else np.eye(d)
    )
    if kind == "scalar":
        below = float(np.sum(weight * S0))
        return (float(np.sum(weight * S1)) / below if below > 0 else float(model.A[0, 0])) * np.eye(d)
    a = np.diag(model.A)
    H = symmetric(weight * S0)
    return np.diag(a + _inverse(H) @ (np.sum(weight * S1.T, axis=1) - H @ a))


def _inverse(S: Array) -> Array:
    """S⁺, with nothing in directions that are rounding, whatever the units of the coordinates."""
    units = np.sqrt(np.diag(S))
    units[units == 0] = 1.0
    return np.asarray(np.linalg.pinv(S / np.outer(units, units), rcond=1e-13, hermitian=True) / np.outer(units, units))


def _noise(model: LinearGaussian, observed: Observations, s: Smoothed, mean: Array, kind: str) -> Array:
    X, R = model.steps.X, np.asarray(model.R)
    m = len(R)
    expected = mean @ X[0].T if len(X) == 1 else np.einsum("ntd,tmd->ntm", mean, X)
    errors = observed.Y - expected
    total, counts = np.zeros((m, m)), np.zeros(m)
    for group in observed.groups:
        there = observed.present(group)
        spread = X @ _of(s.cov, group, observed) @ X.transpose(0, 2, 1)
        for seen, steps in patterns(there):
            o = np.flatnonzero(seen)
            v = errors[np.ix_(group, steps, o)].reshape(-1, len(o))
            E = v.T @ v + len(group) * spread[np.ix_(steps, o, o)].sum(axis=0)
            if kind == "full":
                total += _completed(E, R, seen, len(v))  # (M)
                counts += len(v)
            else:
                total[np.ix_(o, o)] += E
                counts[o] += len(v)
    if not counts.any():
        return R
    if kind == "full":
        return _positive(total / counts[0])
    if kind == "scalar":
        return float(np.trace(total)) / float(counts.sum()) * np.eye(m)
    return np.diag(np.where(counts > 0, np.diag(total) / np.maximum(counts, 1), np.diag(R)))


def _completed(E: Array, R: Array, seen: Array, count: int) -> Array:
    """Σ E vvᵀ of all entries from that of the ones seen in `count` observed."""
    if seen.all():
        return E
    o, u = np.flatnonzero(seen), np.flatnonzero(~seen)
    slope = R[np.ix_(u, o)] @ np.linalg.pinv(R[np.ix_(o, o)], hermitian=True)
    B = np.zeros((len(R), len(o)))
    B[o], B[u] = np.eye(len(o)), slope
    full = B @ E @ B.T
    full[np.ix_(u, u)] += count * (R[np.ix_(u, u)] - slope @ R[np.ix_(o, u)])
    return full
