"""Ideal Continual Learner: fit the new sample without changing any earlier prediction.

    minimise (yₜ − xₜᵀW)²  subject to  yᵢ = xᵢᵀW for all i < t                 (ICL)
    solved by the walk with g = 1/‖x̄‖², see memory/subspace_walk.py

On consistent samples it is the solution nearest the start. On inconsistent ones the oldest are fitted.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.root import take_outputs
from remanence.memory.subspace import Subspace, nothing
from remanence.memory.subspace_walk import walk
from remanence.methods.protocol import Method
from remanence.methods.signals.complex_numbers import InPairs, takes_complex
from remanence.validation import check_block, check_number, check_start


@dataclass(frozen=True, slots=True)
class ICLState:
    """The weights, and the directions in which they may not move any more."""

    W: Annotated[Array, "d c"]
    past: Annotated[Subspace, "d *"]


@takes_complex
@dataclass(frozen=True, slots=True)
class ICL(Method[ICLState]):
    """Ideal Continual Learner: fits each new sample exactly without changing any earlier prediction.

    A sample whose prediction earlier samples fix already changes nothing, so that of samples that contradict each other
    the oldest are fitted.

    Parameters
    ----------
    tolerance : float, default=1e-9
        A sample counts as fixed by earlier ones when less than this share of its length is in a new direction.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> icl = rm.ICL()
    >>> state = icl.update(icl.init(features=2, outputs=1), X, np.array([[1.0], [3.0], [9.0]]))
    >>> icl.predict(state, X).ravel().round(6).tolist()  # the third sample contradicts the first two
    [1.0, 3.0, 4.0]

    References
    ----------
    Peng, Giampouras and Vidal (2023), "The ideal continual learner: an agent that never forgets", ICML.
    """

    tolerance: float = 1e-9

    summary = "fits each sample without changing any earlier prediction; in a conflict the oldest stay"
    cost = "4dr + dc, r directions seen"
    memory = "dr + dc"

    def __post_init__(self) -> None:
        check_number(self.tolerance, "tolerance", high=1.0, hint="the part of ‖x‖ that still counts as new, like 1e-9")

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> ICLState:
        W = check_start(start, features, outputs, dtype)
        return ICLState(W, nothing(features, W))

    def track(self, state: ICLState, X: Any, Y: Any, donate: bool = False) -> tuple[ICLState, Array]:
        X, Y = check_block(X, Y, state.W)
        W, past, errors = walk(state.W, state.past, X, Y, self.tolerance)
        return ICLState(W, past), errors

    def in_pairs(self) -> InPairs:
        return InPairs(self)

    def weights(self, state: ICLState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: ICLState, sources: Array) -> ICLState:
        return ICLState(take_outputs(state.W, sources), state.past)
