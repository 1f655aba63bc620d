"""Orthogonal Recursive Fitting: ICL's step with a memory of bounded rank.

    x̄ = x − U Uᵀx,    W ← W + x̄ (y − xᵀW)/‖x̄‖²                                (O1)
    U ← the `rank` strongest directions of [U diag(s), x]                      (O2)   incremental SVD

With `rank=None` no direction is dropped and it is ICL. With a bound, a new direction replaces the weakest one, and
predictions that depend on that one may change.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.root import take_outputs
from remanence.memory.subspace import Subspace, effective_tolerance, nothing
from remanence.memory.subspace_walk import walk
from remanence.memory.truncated_svd import Spectrum, no_spectrum
from remanence.methods.protocol import Method
from remanence.validation import check_block, check_count, check_number, check_result, check_start, quiet


@dataclass(frozen=True, slots=True)
class ORFitState:
    """The weights and what is protected: a growing subspace, or a spectrum of bounded rank."""

    W: Annotated[Array, "d c"]
    past: Annotated[Subspace | Spectrum, "d *"]


@dataclass(frozen=True, slots=True)
class ORFit(Method[ORFitState]):
    """Orthogonal recursive fitting: fits each new sample exactly, and remembers at most `rank` directions.

    Parameters
    ----------
    rank : int or None, default=None
        How many directions to keep, the strongest ones. None keeps all, and is ICL.
    tolerance : float, default=1e-9
        A sample counts as fixed by earlier ones when less than this share of its length is in a new direction.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> orfit = rm.ORFit(rank=2)
    >>> state = orfit.update(orfit.init(features=3, outputs=1), np.eye(3), np.array([[1.0], [2.0], [3.0]]))
    >>> orfit.weights(state).ravel().tolist()
    [1.0, 2.0, 3.0]

    References
    ----------
    Min, Ahn and Azizan (2022), "One-pass learning via bridging orthogonal gradient descent and recursive
    least-squares", CDC.
    """

    rank: int | None = None
    tolerance: float = 1e-9

    summary = "ICL with a memory of at most `rank` directions, kept by incremental SVD"
    cost = "4dr + dc (bounded: dr² once full)"
    memory = "dr + dc"

    def __post_init__(self) -> None:
        if self.rank is not None:
            check_count(self.rank, "rank", hint="None keeps every direction")
        check_number(self.tolerance, "tolerance", high=1.0, hint="the part of ‖x‖ that still counts as new, like 1e-9")

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> ORFitState:
        W = check_start(start, features, outputs, dtype)
        return ORFitState(W, nothing(features, W) if self.rank is None else no_spectrum(features, 0, W.dtype))

    def track(self, state: ORFitState, X: Any, Y: Any, donate: bool = False) -> tuple[ORFitState, Array]:
        X, Y = check_block(X, Y, state.W)
        if isinstance(state.past, Subspace):
            W, past, errors = walk(state.W, state.past, X, Y, self.tolerance)
            return ORFitState(W, past), errors
        return self._track_bounded(state.W.copy(), state.past, X, Y)

    @quiet
    def _track_bounded(self, W: Array, past: Spectrum, X: Array, Y: Array) -> tuple[ORFitState, Array]:
        assert self.rank is not None
        errors = np.empty_like(Y)
        tolerance = effective_tolerance(self.tolerance, W)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            errors[i] = y - x @ W
            scale = np.abs(x).max() or 1.0
            unit = x / scale
            new = Subspace(past.basis).away(unit)
            length = np.linalg.norm(new)
            if length > tolerance * np.linalg.norm(unit):
                W += np.outer(new / length, errors[i] / (length * scale))  # (O1)
            if scale != 1.0 or x.any():
                past = past.absorbed(x[None], y[None, :0], self.rank)  # (O2)
        check_result(W, errors)
        return ORFitState(W, past), errors

    def weights(self, state: ORFitState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: ORFitState, sources: Array) -> ORFitState:
        return ORFitState(take_outputs(state.W, sources), state.past)
