"""Orthogonal Gradient Descent: a gradient step on the new sample, along what is new in it.

    W ← W + γₜ P x (y − xᵀW),    P = I − U Uᵀ over all earlier samples         (OGD)

No earlier prediction changes for any step γ; whether the new sample is fitted depends on γ (γ = 1/‖Px‖² is ICL).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.root import take_outputs
from remanence.memory.subspace import Subspace, nothing
from remanence.memory.subspace_walk import walk
from remanence.methods.protocol import Method
from remanence.methods.step_sizes import check_step, resolve
from remanence.validation import check_block, check_number, check_start


@dataclass(frozen=True, slots=True)
class OGDState:
    """The weights, the directions in which they may not move any more, and the samples seen."""

    W: Annotated[Array, "d c"]
    past: Annotated[Subspace, "d *"]
    count: int


@dataclass(frozen=True, slots=True)
class OGD(Method[OGDState]):
    """Orthogonal gradient descent: gradient steps that change no prediction at earlier samples.

    Parameters
    ----------
    step : float, sequence of float or callable, default=1.0
        γ: the length of the gradient step. One number, one per sample, or a function of t = 1, 2, …
    tolerance : float, default=1e-9
        A sample brings no new direction when less than this share of its length is in one.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> ogd = rm.OGD(step=0.5)
    >>> first = ogd.update(ogd.init(features=2, outputs=1), X[:1], np.array([[1.0]]))
    >>> second = ogd.update(first, X[1:], np.array([[3.0]]))
    >>> [ogd.predict(state, X[:1]).item() for state in (first, second)]  # the first prediction stays
    [0.5, 0.5]

    References
    ----------
    Farajtabar, Azizan, Mott and Li (2020), "Orthogonal gradient descent for continual learning", AISTATS.
    """

    step: float | Sequence[float] | Callable[[int], float] = 1.0
    tolerance: float = 1e-9

    summary = "gradient steps orthogonal to all earlier samples; earlier predictions never change"
    cost = "4dr + dc, r directions seen"
    memory = "dr + dc"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", check_step(self.step, normalized=False))
        check_number(self.tolerance, "tolerance", high=1.0, hint="the part of ‖x‖ that still counts as new, like 1e-9")

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> OGDState:
        W = check_start(start, features, outputs, dtype)
        return OGDState(W, nothing(features, W), 0)

    def track(self, state: OGDState, X: Any, Y: Any, donate: bool = False) -> tuple[OGDState, Array]:
        X, Y = check_block(X, Y, state.W)
        steps = resolve(self.step, state.count, len(X))
        W, past, errors = walk(state.W, state.past, X, Y, self.tolerance, steps)
        return OGDState(W, past, state.count + len(X)), errors

    def weights(self, state: OGDState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: OGDState, sources: Array) -> OGDState:
        return OGDState(take_outputs(state.W, sources), state.past, state.count)
