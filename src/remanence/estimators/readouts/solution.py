"""The scores of a readout as a linear function of the features, solved once for each state and kept beside it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.readouts.discriminant import Discriminant, discriminant_of
from remanence.memory.variances import column_variances
from remanence.methods import RLS
from remanence.methods.protocol import Method
from remanence.validation import check_result, quiet

READOUTS = ("ridge", "discriminant", "auto")
NO_SAMPLES = -1e30  # the score of a class that has none: below all others, and finite in every dtype


@dataclass(frozen=True, slots=True)
class Solution:
    """A discriminant as scores of the design: design @ weights + bias."""

    discriminant: Discriminant  # of the classes with samples
    weights: Array  # (d, c), of the dtype of the model
    bias: Array | None  # (c,), where no column of ones holds it


class SolutionCache:
    """What was solved for one state, identified as an object; shared by copies, empty in a pickle."""

    __slots__ = ("_key", "_solution")

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._solution: Solution | None = None

    def __reduce__(self) -> Any:
        return SolutionCache, ()

    def get(self, state: Any, uniform: bool) -> Solution | None:
        key, solution = self._key, self._solution
        return solution if len(key) == 2 and key[0] is state and key[1] == uniform else None

    def put(self, state: Any, uniform: bool, solution: Solution) -> None:
        self._key, self._solution = (), solution  # (another thread finds the key last)
        self._key = (state, uniform)


def check_readout(readout: str, method: Method[Any], calibrate: bool = True) -> None:
    """Raise an InputError where this method has no memory that a discriminant can be read from."""
    if readout == "auto" and not calibrate:
        raise InputError(
            'readout="auto" chooses by answers to rows before they are learned, which calibrate=True counts, got '
            "calibrate=False"
        )
    if readout != "ridge" and not (isinstance(method, RLS) and method.forget and method.forget != "auto"):
        raise InputError(
            f"readout={readout!r} needs a method that remembers the scatter of all samples, got {method}; use RLS with "
            f'a number above 0 as forget, or readout="ridge"'
        )


@quiet
def solve_discriminant(
    method: RLS, state: Any, W: Array, present: Array, centred: bool, uniform: bool = False
) -> Solution:
    """The discriminant of a state of RLS with ridge weights W; classes not `present` get a score below all others."""
    state = state.as_least_squares("a discriminant")
    schedule = method._schedule
    data, kept = method.data(state), np.flatnonzero(present)
    if state.scaled:  # the discriminant of standardized features; its weights apply to features as they are
        scales, penalty = np.sqrt(column_variances(data)).astype(data.dtype), method.ridge_of(state)
        scales[0] = 1
        rows = replace(data.with_outputs(kept), factor=data.factor / scales)
        found = discriminant_of(rows, W[:, kept] * scales[:, None], penalty, centred)
    else:
        penalty = state.prior_weight(schedule, method.ridge_of(state), state.count, data)
        found = discriminant_of(data.with_outputs(kept), W[:, kept], penalty, centred)
    weights, bias = np.zeros(W.shape), np.full(W.shape[1], NO_SAMPLES)
    weights[int(centred) :, kept] = found.weights(W[int(centred) :, kept])
    bias[kept] = found.intercepts(uniform)
    check_result(weights, bias)
    if not centred:
        return Solution(found, weights.astype(W.dtype), bias)
    mean = (data.factor[0, 1:] / data.factor[0, 0]).astype(np.float64)  # of the features, in the coordinates of R
    weights[0] = bias - mean @ weights[1:]
    return Solution(found, weights.astype(W.dtype), None)
