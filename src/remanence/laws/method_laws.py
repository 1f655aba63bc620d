"""Check that a method keeps the laws on which estimators, evaluation, files and certificates rely.

    pure       learning and predicting leave a state, and the caller's arrays, unchanged
    cutting    update(update(s, A), B) = update(s, A then B)         unless an update is a task of its own
    tracking   the errors of track are those of predicting each row before learning it
    donating   donate=True changes no number
    outputs    outputs may be permuted, and one that is added late had zero targets so far
    rejecting  invalid rows raise InputError and change nothing
    saving     a loaded learner equals the saved one

Each law is a function of a method and a stream. It raises an AssertionError that names the law and how far apart the
two sides were.
"""

import copy
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.methods.protocol import Method

ROUNDING = 1e-8  # relative, between two orders of the same arithmetic on well-conditioned rows


@dataclass(frozen=True)
class Stream:
    """Rows that one model fits exactly, so that methods that reject contradictions learn them too."""

    X: Array  # (n, d)
    Y: Array  # (n, c)
    start: Array  # (d, c)

    @classmethod
    def drawn(cls, seed: int, rows: int, features: int, outputs: int, dtype: DTypeLike = np.float64) -> "Stream":
        rng = np.random.default_rng([seed, rows, features, outputs])

        def draw(*shape: int) -> Array:
            found = rng.standard_normal(shape)
            return found if np.dtype(dtype).kind != "c" else found + 1j * rng.standard_normal(shape)

        X = draw(rows, features)
        return cls(X, X @ draw(features, outputs), draw(features, outputs))

    def cut(self, size: int) -> Iterator[tuple[Array, Array]]:
        for i in range(0, len(self.X), size):
            yield self.X[i : i + size], self.Y[i : i + size]


def check_method(method: Any, seed: int = 0, dtype: DTypeLike = np.float64) -> None:
    """Run every law on a method; the first one that does not hold raises an AssertionError.

    Parameters
    ----------
    method : Method
        A method value, such as `rm.RLS(ridge=0.1)` or an instance of a class of your own.
    seed : int
        Chooses the rows on which the laws are tried.
    dtype : float64 or complex128, default=float64
        The numbers of the rows.

    Examples
    --------
    >>> import remanence as rm
    >>> rm.check_method(rm.RLS(forget=0.99))
    >>> rm.check_method(rm.RLS(forget=0.99), dtype=complex)
    """
    if not isinstance(method, Method):
        got = f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
        raise InputError(f"expected a method value such as rm.RLS(), got {got}")
    for rows, features, outputs in ((7, 1, 1), (9, 5, 2), (40, 12, 3), (60, 4, 1)):
        stream = Stream.drawn(seed, rows, features, outputs, dtype)
        for law in LAWS:
            try:
                law(method, stream)
            except AssertionError as broken:
                shape = f"{rows} rows, {features} features, {outputs} outputs"
                words = (law.__doc__ or law.__name__).splitlines()[0].rstrip(".")
                raise AssertionError(f"{method} breaks a law on {shape}: {words}: {broken}") from None


def states_are_values(method: Method[Any], stream: Stream) -> None:
    """Learning from a state and predicting with it leave it, and the caller's arrays, unchanged."""
    X, Y, start = stream.X.copy(), stream.Y.copy(), stream.start.copy()
    state = method.update(_fresh(method, stream), X, Y)
    before = _model(method, state, stream)
    method.predict(state, X), method.update(state, X[:1], Y[:1]), method.track(state, X, Y)
    _equal(_model(method, state, stream), before, "weights after further learning", 0.0)
    for ours, theirs, name in ((X, stream.X, "X"), (Y, stream.Y, "Y"), (start, stream.start, "start")):
        _equal(ours, theirs, f"the caller's {name}", 0.0)
    X[:], Y[:] = 7.0, -7.0
    _equal(_model(method, state, stream), before, "weights after the caller's arrays changed", 0.0)
    W = method.weights(state)
    if W.flags.writeable:
        W *= 0
        _equal(_model(method, state, stream), before, "weights after writing into what `weights` returned", 0.0)


def beginning_is_the_start(method: Method[Any], stream: Stream) -> None:
    """A state that has learned nothing has the weights it was started with, or zeros."""
    features, outputs = stream.start.shape
    given, zeros = stream.start, np.zeros((features, outputs))
    if not method.linear:  # a start is a linear model to begin from
        given, zeros = stream.X @ given, stream.X @ zeros
    _equal(_model(method, _fresh(method, stream), stream), given, "weights")
    empty = method.init(features, outputs, dtype=stream.X.dtype)
    _equal(_model(method, empty, stream), zeros, "weights without a start")


def predicting_is_a_product(method: Method[Any], stream: Stream) -> None:
    """Predictions are X @ W, of shape (rows, outputs)."""
    if not method.linear:
        return
    state = method.update(_fresh(method, stream), stream.X, stream.Y)
    _equal(method.predict(state, stream.X), stream.X @ method.weights(state), "predictions")


def cutting_changes_nothing(method: Method[Any], stream: Stream) -> None:
    """Cutting the rows elsewhere changes nothing beyond rounding."""
    if method.task_per_update:
        return
    whole = _model(method, method.update(_fresh(method, stream), stream.X, stream.Y), stream)
    for size in (1, 3, len(stream.X) - 1):
        state = _fresh(method, stream)
        for X, Y in stream.cut(size):
            state = method.update(state, X, Y)
        _equal(_model(method, state, stream), whole, f"weights learned {size} rows at a time")


def tracking_is_predicting_then_learning(method: Method[Any], stream: Stream) -> None:
    """The errors of `track` are those of predicting each row before it is learned."""
    expected = []
    state = _fresh(method, stream)
    for X, Y in stream.cut(len(stream.X) if method.task_per_update else 1):
        expected.append(Y - method.predict(state, X))
        state = method.update(state, X, Y)
    tracked, errors = method.track(_fresh(method, stream), stream.X, stream.Y)
    _equal(errors, np.concatenate(expected), "errors", scale=float(np.linalg.norm(stream.Y)))
    _equal(_model(method, tracked, stream), _model(method, state, stream), "weights after track")


def donating_changes_nothing(method: Method[Any], stream: Stream) -> None:
    """Passing donate=True changes no number."""
    kept, given = _fresh(method, stream), _fresh(method, stream)
    for X, Y in stream.cut(4):
        kept, given = method.update(kept, X, Y), method.update(given, X, Y, donate=True)
    _equal(_model(method, given, stream), _model(method, kept, stream), "weights")


def outputs_do_not_meet(method: Method[Any], stream: Stream) -> None:
    """Outputs may be permuted, and an output that is added late had zero targets so far."""
    c = stream.Y.shape[1]
    state = method.update(_fresh(method, stream), stream.X, stream.Y)
    order = np.arange(c)[::-1]
    found = _model(method, state, stream)
    _equal(_model(method, method.with_outputs(state, order), stream), found[:, order], "permuted weights")
    grown = _model(method, method.with_outputs(state, np.array([*range(c), -1])), stream)
    assert grown.shape == (len(found), c + 1), f"shape {grown.shape}"
    _equal(grown[:, :c], found, "old outputs after one was added")


def bad_rows_are_rejected(method: Method[Any], stream: Stream) -> None:
    """Invalid rows raise InputError and change nothing."""
    features, outputs = stream.start.shape
    state = method.update(_fresh(method, stream), stream.X, stream.Y)
    before = _model(method, state, stream)
    X, Y = stream.X[:2], stream.Y[:2]
    bad: tuple[tuple[str, Any, Any], ...] = (
        ("NaN in X", np.full_like(X, np.nan), Y),
        ("infinity in Y", X, np.full_like(Y, np.inf)),
        ("too many features", np.ones((2, features + 1)), Y),
        ("too many outputs", X, np.ones((2, outputs + 1))),
        ("rows that do not pair", X, Y[:1]),
        ("one-dimensional X", X[0], Y),
        ("text", X.astype(str), Y),
        ("no rows", X[:0], Y[:0]),
    )
    calls: tuple[Callable[..., Any], ...] = (method.update, method.track)
    for name, rows, targets in bad:
        for call in calls:
            try:
                call(state, rows, targets)
            except InputError:
                pass
            except Exception as other:
                raise AssertionError(f"{name} raised {type(other).__name__}, expected InputError") from other
            else:
                raise AssertionError(f"{name} was accepted, expected InputError")
            _equal(_model(method, state, stream), before, f"weights after {name}", 0.0)


def copies_are_independent(method: Method[Any], stream: Stream) -> None:
    """Pickled and deep-copied states learn further as the original does."""
    state = method.update(_fresh(method, stream), stream.X, stream.Y)
    expected = _model(method, method.update(state, stream.X, stream.Y), stream)
    for twin in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        _equal(_model(method, method.update(twin, stream.X, stream.Y), stream), expected, "weights of a copy")


def saving_changes_nothing(method: Method[Any], stream: Stream) -> None:
    """A loaded learner equals the saved one and learns further as it does."""
    from remanence.methods import method_classes
    from remanence.store import load, save

    state = method.settled(method.update(_fresh(method, stream), stream.X, stream.Y))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.safetensors"
        try:
            save((method, state), path)
        except InputError as reason:
            registered = type(method) in method_classes().values()
            stored = all(not callable(getattr(method, f.name)) for f in fields(cast(Any, method)))
            assert not (registered and stored), f"it cannot be saved: {reason}"
            return  # a method that is not in the registry, or a setting that is a function
        again, loaded = load(path)
    assert again == method, f"settings came back as {again}"
    _equal(_model(method, loaded, stream), _model(method, state, stream), "weights")
    expected = _model(method, method.update(state, stream.X, stream.Y), stream)
    further = method.update(loaded, stream.X, stream.Y)
    _equal(_model(method, further, stream), expected, "weights after learning further")


LAWS: tuple[Callable[[Method[Any], Stream], None], ...] = (
    beginning_is_the_start,
    states_are_values,
    predicting_is_a_product,
    cutting_changes_nothing,
    tracking_is_predicting_then_learning,
    donating_changes_nothing,
    outputs_do_not_meet,
    bad_rows_are_rejected,
    copies_are_independent,
    saving_changes_nothing,
)


def _fresh(method: Method[Any], stream: Stream) -> Any:
    features, outputs = stream.start.shape
    return method.init(features, outputs, start=stream.start, dtype=stream.X.dtype)


def _model(method: Method[Any], state: Any, stream: Stream) -> Array:
    """What two ways of learning must agree on: the weights, or where the model is not linear the predictions."""
    return np.array(method.weights(state) if method.linear else method.predict(state, stream.X))


def _equal(found: Any, expected: Any, what: str, rounding: float = ROUNDING, scale: float | None = None) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what} have shape {found.shape}, expected {expected.shape}"
    size = max(float(np.linalg.norm(expected)), float(np.linalg.norm(found)), 1e-300 if scale is None else scale)
    off = float(np.linalg.norm(found - expected)) / size
    assert off <= rounding, f"{what} differ by {off:.1e}, allowed {rounding:.0e}"
