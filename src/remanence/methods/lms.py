"""Least mean squares: the smallest change that corrects the current sample, and no memory of the others.

minimise ‖θ − θᵗ⁻¹‖²  subject to  y − xᵀθ = (1 − γ)(y − xᵀθᵗ⁻¹)            (LMS)
θᵗ = θᵗ⁻¹ + γ x (y − xᵀθᵗ⁻¹) / ‖x‖²                                       (L1)   x = 0 changes nothing
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.kernels.filters import lms_walk
from remanence.memory.root import add_rows, check_sources, take_outputs, take_rows
from remanence.methods.live.generic import Live
from remanence.methods.protocol import Method
from remanence.methods.signals.complex_numbers import InPairs, takes_complex
from remanence.methods.step_sizes import check_step, resolve, twice
from remanence.validation import check_block, check_finite, check_result, check_start, quiet


@dataclass(frozen=True, slots=True)
class LMSState:
    """The weights and the number of samples behind them."""

    W: Annotated[Array, "d c"]
    count: int


@takes_complex
@dataclass(frozen=True, slots=True)
class LMS(Method[LMSState]):
    """Least mean squares: corrects each sample by the smallest change of the weights, and keeps no other sample.

    With `normalized=True` it is the normalized LMS filter (NLMS), or Kaczmarz' method.

    Parameters
    ----------
    step : float, sequence of float or callable, default=1.0
        γ: the share of a sample's error that is corrected. One number, one per sample, or a function of t = 1, 2, …
        `rm.steps` has rules. Constant normalized steps lie between 0 and 2; single ones may be larger.
    normalized : bool, default=True
        False takes the raw gradient step γ x e, without the division by ‖x‖².

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> lms = rm.LMS()
    >>> state, errors = lms.track(lms.init(features=2, outputs=1), np.eye(2), np.array([[1.0], [2.0]]))
    >>> errors.ravel().tolist(), lms.weights(state).ravel().tolist()
    ([1.0, 2.0], [1.0, 2.0])

    References
    ----------
    Widrow and Hoff (1960), "Adaptive switching circuits", IRE WESCON Convention Record.
    """

    step: float | Sequence[float] | Callable[[int], float] = 1.0
    normalized: bool = True

    summary = "the smallest change that corrects the current sample; remembers no other"
    cost = "2dc"
    memory = "dc"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", check_step(self.step, self.normalized))

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> LMSState:
        return LMSState(check_start(start, features, outputs, dtype), 0)

    @quiet
    def track(self, state: LMSState, X: Any, Y: Any, donate: bool = False) -> tuple[LMSState, Array]:
        X, Y = check_block(X, Y, state.W, finite=False)
        steps = resolve(self.step, state.count, len(X)).astype(X.dtype)
        W, errors = np.array(state.W.T, order="C"), np.empty(Y.shape, Y.dtype)
        if lms_walk(W, np.ascontiguousarray(X), np.ascontiguousarray(Y), steps, self.normalized, errors) < len(X):
            check_finite(X, "X")  # (the loop looks at every entry anyway, so it also looks for NaN)
        check_result(W, errors)
        return LMSState(np.ascontiguousarray(W.T), state.count + len(X)), errors

    def in_pairs(self) -> InPairs:
        return InPairs(self if isinstance(self.step, float) else replace(self, step=twice(self.step)))

    def repeating(self, times: Array, first: int) -> "LMS":
        """The method for which sample first + i counts as `times[i]` samples in a row.

        k steps on one sample leave (1 − γ)ᵏ of its error, so they are one step 1 − (1 − γ)ᵏ; k may be a fraction.
        """
        steps = resolve(self.step, first, len(times))
        if not self.normalized or ((steps > 1) & (times != np.round(times))).any():
            raise InputError("expected whole weights with steps above 1, and normalized=True, to weigh samples in LMS")
        given = 1 - (1 - steps) ** times
        return LMS(lambda t: float(given[t - first - 1]))

    def weights(self, state: LMSState) -> Array:
        return read_only(state.W)

    def with_outputs(self, state: LMSState, sources: Array) -> LMSState:
        return LMSState(take_outputs(state.W, sources), state.count)

    def with_features(self, state: LMSState, features: int) -> LMSState:
        """The state with more features, which have been zero so far and start with weight zero."""
        return LMSState(add_rows(state.W, features), state.count)

    def with_columns(self, state: LMSState, sources: Array) -> LMSState:
        return LMSState(take_rows(state.W, check_sources(sources, len(state.W))), state.count)

    def live_from(self, state: LMSState) -> Live[LMSState]:
        if not isinstance(self.step, float) or state.W.dtype != np.float64:
            return Live(self, state)
        from remanence.methods.live.compiled import LiveLMS

        return cast(Live[LMSState], LiveLMS(self, state))
