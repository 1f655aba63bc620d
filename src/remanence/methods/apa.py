"""Affine projection: the smallest change that meets the new sample and the last b (or all) before it.

    minimise ‖θ − θᵗ⁻¹‖²  subject to  yᵢ = xᵢᵀθ,  i = t−b, …, t                (APA)
    θᵗ = θᵗ⁻¹ + γ Z⁺(T − Zθᵗ⁻¹)                                               (A1)   Z, T: those samples

Dependent samples get the minimum-norm correction, inconsistent ones its least-squares form. `buffer=0` is LMS;
`buffer=None` keeps all samples (APA†): then θᵗ is the least-squares solution of everything nearest to the start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.kernels.filters import apa_walk
from remanence.memory.root import take_outputs
from remanence.memory.subspace import nothing
from remanence.memory.window import Everything, Window, correction, nothing_seen
from remanence.methods.protocol import Method
from remanence.methods.signals.complex_numbers import InPairs, takes_complex
from remanence.methods.step_sizes import check_step, resolve, twice
from remanence.validation import check_block, check_count, check_result, check_start, quiet

LARGEST_BUFFER = 10_000
DEPENDENT = 1e-6  # squared pivots below this share are solved without a Gram matrix: it would lose too many digits


@dataclass(frozen=True, slots=True)
class APAState:
    """The weights, the samples that are replayed, and the number seen."""

    W: Annotated[Array, "d c"]
    past: Annotated[Window | Everything, "d c"]
    count: int


@takes_complex
@dataclass(frozen=True, slots=True)
class APA(Method[APAState]):
    """Affine projection: the smallest change that meets the new sample and the last `buffer` samples.

    Parameters
    ----------
    buffer : int or None, default=8
        How many old samples are met again with each new one. None keeps all, in the directions they span (APA†): then a
        stream that one model fits ends at the solution nearest to the start.
    step : float, sequence of float or callable, default=1.0
        γ: the share of a sample's error that is corrected. One number, one per sample, or a function of t = 1, 2, …

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> apa = rm.APA(buffer=1)
    >>> state = apa.update(apa.init(features=2, outputs=1), X, X @ [[1.0], [2.0]])
    >>> apa.predict(state, X).ravel().round(6).tolist()
    [1.0, 3.0]

    References
    ----------
    Hinamoto and Maekawa (1975), "Extended theory of learning identification", Electrical Engineering in Japan.
    Ozeki and Umeda (1984), "An adaptive filtering algorithm using an orthogonal projection to an affine subspace and
    its properties", Electronics and Communications in Japan.
    """

    buffer: int | None = 8
    step: float | Sequence[float] | Callable[[int], float] = 1.0

    summary = "meets the new sample and the last `buffer` ones at once; None keeps all of them"
    cost = "3bd(c + 1) + b³ (all: 4dr + r²)"
    memory = "bd + dc (all: dr + r²)"

    def __post_init__(self) -> None:
        if self.buffer is not None:
            check_count(self.buffer, "buffer", low=0, hint="None keeps all samples")
            if self.buffer > LARGEST_BUFFER:
                raise InputError(
                    f"expected a buffer of at most {LARGEST_BUFFER} samples, whose products are kept, "
                    f"got {self.buffer}; buffer=None keeps all samples in the directions they span"
                )
        object.__setattr__(self, "step", check_step(self.step))

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> APAState:
        W = check_start(start, features, outputs, dtype)
        if self.buffer is None:
            return APAState(W, nothing_seen(W, nothing(features, W)), 0)
        return APAState(W, Window(np.zeros((0, features), W.dtype), np.zeros((0, outputs), W.dtype)), 0)

    @quiet
    def update(self, state: APAState, X: Any, Y: Any, donate: bool = False) -> APAState:
        if isinstance(state.past, Everything) and self.step == 1.0:  # the steps in between leave no trace
            X, Y = check_block(X, Y, state.W)
            past = state.past.absorbed(X, Y, 1e-9)
            W = past.nearest(state.W)
            check_result(W)
            return APAState(W, past, state.count + len(X))
        return self.track(state, X, Y, donate)[0]

    @quiet
    def track(self, state: APAState, X: Any, Y: Any, donate: bool = False) -> tuple[APAState, Array]:
        X, Y = check_block(X, Y, state.W)
        steps = resolve(self.step, state.count, len(X)).astype(X.dtype)
        W, errors, past = state.W.copy(), np.empty(Y.shape, Y.dtype), state.past
        if isinstance(past, Window):
            assert self.buffer is not None
            W = _walk(W, past, np.ascontiguousarray(X), np.ascontiguousarray(Y), steps, self.buffer, errors)
            past = past.pushed(X, Y, self.buffer)
        else:
            for i in range(len(X)):
                errors[i] = Y[i] - X[i] @ W
                past = past.absorbed(X[i : i + 1], Y[i : i + 1], 1e-9)
                W = W + steps[i] * (past.nearest(W) - W)  # (A1)
        check_result(W, errors)
        return APAState(W, past, state.count + len(X)), errors

    def in_pairs(self) -> InPairs:
        doubled = None if self.buffer is None else min(2 * self.buffer, LARGEST_BUFFER)
        real = replace(self, buffer=doubled, step=twice(self.step))
        if self.buffer is None and self.step == 1.0:
            return InPairs(real)  # the steps in between leave no trace
        return InPairs(real, track=self._track_pairs)

    def _track_pairs(self, state: APAState, X: Array, Y: Array) -> tuple[APAState, Array]:
        """Learn two rows at a time: both are met with all those before them."""
        steps = resolve(self.step, state.count // 2, len(X) // 2).astype(X.dtype)
        W, errors, past = state.W, np.empty(Y.shape, Y.dtype), state.past
        for i, step in enumerate(steps):
            pair = slice(2 * i, 2 * i + 2)
            errors[pair] = Y[pair] - X[pair] @ W
            if isinstance(past, Window):
                assert self.buffer is not None
                now = past.pushed(X[pair], Y[pair], 2 * self.buffer + 2)
                W = W + step * correction(now.X, now.Y - now.X @ W)  # (A1)
                past = now.pushed(X[:0], Y[:0], 2 * self.buffer) if self.buffer else past
            else:
                past = past.absorbed(X[pair], Y[pair], 1e-9)
                W = W + step * (past.nearest(W) - W)  # (A1)
        check_result(W, errors)
        return APAState(W, past, state.count + len(X)), errors

    def weights(self, state: APAState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: APAState, sources: Array) -> APAState:
        return APAState(take_outputs(state.W, sources), state.past.with_outputs(sources), state.count)


def _walk(W: Array, past: Window, X: Array, Y: Array, steps: Array, buffer: int, errors: Array) -> Array:
    """The compiled loop, first over the rows that still see the window, then over the rest; W (d, c) is returned."""
    W = np.array(W.T, order="C")
    bound = max(DEPENDENT, 1e3 * float(np.finfo(X.dtype).eps))
    head = min(buffer, len(X))
    stretches = [(np.concatenate([past.X, X[:head]]), np.concatenate([past.Y, Y[:head]]), len(past.X), 0)]
    if head < len(X):
        stretches.append((X, Y, head, head))
    for Z, T, first, offset in stretches:
        skip, given, found = 0, steps[offset:], errors[offset:]
        while first + skip < len(Z):
            stop = apa_walk(W, Z, T, first, min(buffer, len(Z)), given, found, skip, bound)
            if stop < len(Z):  # nearly dependent constraints: solve this one with care
                rows = slice(max(0, stop - buffer), stop + 1)
                left = T[rows] - Z[rows] @ W.T
                W += given[stop - first] * correction(Z[rows], left).T
            skip = stop - first + 1
    return np.ascontiguousarray(W.T)
