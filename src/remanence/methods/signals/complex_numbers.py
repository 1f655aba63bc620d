"""Methods that learn complex rows, by learning two real rows for each (real_pairs.py).

    minimise |y − xᵀw|²  =  (r − uᵀω)² + (s − vᵀω)²                                                            (C1)
    uᵀGv = 0 for every memory G of such rows                                                                  (C2)

G is the real form of a Hermitian matrix, and uᵀGv the imaginary part of xᵀGx̄, which is real. So learning u leaves the
error of v as it is, and two real rows in turn are one complex row: what is proven and compiled for real rows serves
complex ones. Where β < 1 forgets, a real row forgets by √β, and u is multiplied by β^(−1/4) so that u and v weigh the
same once both are learned. Conjugates are in one place, real_rows.

`@takes_complex` makes the functions of a method accept the states that `init(…, dtype=complex128)` returns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import isfunction, signature
from typing import Any, NamedTuple, TypeVar

import numpy as np

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.memory.products import scores_of
from remanence.methods.live.generic import Live
from remanence.methods.protocol import Method
from remanence.methods.signals.real_pairs import (
    complex_targets,
    complex_weights,
    real_dtype,
    real_rows,
    real_targets,
    real_weights,
)
from remanence.validation import check_block, check_finite, check_numbers, check_rows, check_start, quiet

M = TypeVar("M", bound=type[Method[Any]])
COMPLEX = (np.dtype(np.complex128), np.dtype(np.complex64))


@dataclass(frozen=True, slots=True)
class ComplexState:
    """What a method has learned of complex rows: the state of the real rows they stand for."""

    pairs: Any  # a state of 2d features

    def as_least_squares(self, call: str) -> Any:
        raise InputError(f"{call} needs two states of one dtype, got real and complex numbers")


class InPairs(NamedTuple):
    """How a method learns complex rows; what `in_pairs` returns."""

    method: Method[Any]  # learns the real rows
    first: float = 1.0  # the factor of the first of two real rows
    track: Callable[[Any, Array, Array], tuple[Any, Array]] | None = None  # where rows in turn are not a pair
    variance: float = 1.0  # the variance of a complex number, in units of that of its real row


def takes_complex(method: M) -> M:
    """Let the functions of a method that has `in_pairs` take complex states; those without a complex form refuse."""
    method.init = _begun(method.init)  # type: ignore[method-assign]
    for name in {name for cls in method.__mro__[:-1] for name in vars(cls) if not name.startswith("_")}:
        real = getattr(method, name)
        if isfunction(real) and {"state", "a"} & set(signature(real).parameters):
            setattr(method, name, _dispatched(real, FUNCTIONS.get(name) or _refused(name)))
    return method


def _begun(init: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(init)
    def begun(
        self: Any, features: int, outputs: int, start: Any = None, dtype: Any = np.float64, *free: Any, **named: Any
    ) -> Any:
        if not is_complex(dtype):
            return init(self, features, outputs, start, dtype, *free, **named)
        W = real_weights(check_complex_start(start, features, outputs, dtype))
        unpenalized = [2 * number for number in (*free, *named.values())]  # (`free`, where a method has it)
        return ComplexState(self.in_pairs().method.init(2 * features, outputs, W, W.dtype, *unpenalized))

    return begun


def is_complex(dtype: Any) -> bool:
    """Whether this names complex128 or complex64."""
    try:
        return np.dtype(dtype) in COMPLEX
    except TypeError:
        return False


def check_complex_start(start: Any, features: int, outputs: int, dtype: Any) -> Array:
    """The complex weights to begin from: a copy of `start`, or zeros."""
    kind = np.dtype(dtype)
    zeros = check_start(None, features, outputs, real_dtype(kind)).astype(kind)
    if start is None:
        return zeros
    values = check_numbers(start, "start", kind)
    if values.shape != (features, outputs):
        raise InputError(f"expected start of shape ({features}, {outputs}), got {values.shape}")
    check_finite(values, "start")
    return np.array(values)


def _dispatched(real: Callable[..., Any], of_complex: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def dispatched(self: Any, *given: Any, **named: Any) -> Any:
        state = given[0] if given else named.get("state", named.get("a"))
        return (of_complex if type(state) is ComplexState else real)(self, *given, **named)

    return dispatched


def _refused(name: str) -> Callable[..., Any]:
    def refused(self: Any, state: ComplexState, *given: Any, **named: Any) -> Any:
        raise InputError(
            f"{type(self).__name__}.{name} is for real numbers, got a state of complex ones; "
            f"pass real and imaginary parts as rows of their own to use it"
        )

    return refused


# Functions of complex states


def _template(self: Any, state: ComplexState) -> Array:
    return complex_weights(self.in_pairs().method.template(state.pairs))


@quiet
def _weights(self: Any, state: ComplexState) -> Array:
    return read_only(complex_weights(self.in_pairs().method.weights(state.pairs)))


@quiet
def _predict(self: Any, state: ComplexState, X: Any) -> Array:
    W = _weights(self, state)
    return scores_of(check_rows(X, len(W), W.dtype, finite=False), W)


def _pairs(self: Any, state: ComplexState, X: Any, Y: Any) -> tuple[InPairs, Array, Array]:
    X, Y = check_block(X, Y, _template(self, state))
    how: InPairs = self.in_pairs()
    rows, targets = real_rows(X), real_targets(Y)
    if how.first != 1:
        rows[::2] *= rows.dtype.type(how.first)
        targets[::2] *= rows.dtype.type(how.first)
    return how, rows, targets


@quiet
def _update(self: Any, state: ComplexState, X: Any, Y: Any, donate: bool = False) -> ComplexState:
    how, rows, targets = _pairs(self, state, X, Y)
    if how.track is not None:
        return ComplexState(how.track(state.pairs, rows, targets)[0])
    return ComplexState(how.method.update(state.pairs, rows, targets, donate))


@quiet
def _track(self: Any, state: ComplexState, X: Any, Y: Any, donate: bool = False) -> tuple[ComplexState, Array]:
    how, rows, targets = _pairs(self, state, X, Y)
    if how.track is not None:
        pairs, errors = how.track(state.pairs, rows, targets)
    else:
        pairs, errors = how.method.track(state.pairs, rows, targets, donate)
    errors[::2] /= errors.dtype.type(how.first)
    return ComplexState(pairs), complex_targets(errors)


def _remove(self: Any, state: ComplexState, X: Any, Y: Any, accept_loss: bool = False) -> ComplexState:
    how, rows, targets = _pairs(self, state, X, Y)
    learned = getattr(state.pairs, "count", len(rows))
    if len(rows) > learned:
        raise InputError(f"expected at most {learned // 2} rows to remove, the number learned, got {len(rows) // 2}")
    return ComplexState(how.method.remove(state.pairs, rows, targets, accept_loss))  # type: ignore[attr-defined]


def _merge(self: Any, a: ComplexState, b: Any) -> ComplexState:
    if type(b) is not ComplexState:
        raise InputError("expected two states of complex numbers, got one of real numbers; begin both with one dtype")
    return ComplexState(self.in_pairs().method.merge(a.pairs, b.pairs))


@quiet
def _variance(self: Any, state: ComplexState, X: Any) -> Array:
    like, how = _template(self, state), self.in_pairs()
    rows = real_rows(check_rows(X, len(like), like.dtype))
    return np.asarray(how.variance * how.method.variance(state.pairs, rows)[::2])


def _with_features(self: Any, state: ComplexState, features: int) -> ComplexState:
    return ComplexState(self.in_pairs().method.with_features(state.pairs, 2 * features))


def _with_columns(self: Any, state: ComplexState, sources: Any) -> ComplexState:
    return ComplexState(self.in_pairs().method.with_columns(state.pairs, _both(sources)))


def _without_features(self: Any, state: ComplexState, columns: Any) -> ComplexState:
    return ComplexState(self.in_pairs().method.without_features(state.pairs, _both(columns)))


def _both(places: Any) -> Array:
    """The places of real and imaginary parts; -1 stays."""
    given = np.atleast_1d(np.asarray(places))
    return np.where(given[:, None] < 0, given[:, None], 2 * given[:, None] + [0, 1]).reshape(-1)


def _accepts_state(self: Any, state: ComplexState) -> bool:
    return type(state.pairs) is not ComplexState and bool(self.in_pairs().method.accepts_state(state.pairs))


def _changed(name: str) -> Callable[..., Any]:
    """A function that returns a state."""

    def changed(self: Any, state: ComplexState, *given: Any) -> ComplexState:
        return ComplexState(getattr(self.in_pairs().method, name)(state.pairs, *given))

    return changed


def _asked(name: str) -> Callable[..., Any]:
    """A function whose value is that of the real rows."""

    def asked(self: Any, state: ComplexState) -> Any:
        return getattr(self.in_pairs().method, name)(state.pairs)

    return asked


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "update": _update,
    "track": _track,
    "weights": _weights,
    "predict": _predict,
    "template": _template,
    "accepts_state": _accepts_state,
    "live_from": Live,
    "remove": _remove,
    "merge": _merge,
    "variance": _variance,
    "with_features": _with_features,
    "with_columns": _with_columns,
    "without_features": _without_features,
    **{name: _changed(name) for name in ("settled", "with_outputs", "with_ridge")},
    **{name: _asked(name) for name in ("loss", "ridge_of", "precision_loss")},
}
