"""Prequential evaluation: predict each row, then learn it; the errors are those of a model in use.

A method is asked through `track`, which returns the error of every row before it was learned at the speed of learning.
An estimator is asked by `predict` and then taught by `partial_fit`, block by block.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from remanence.arrays import Array, read_only
from remanence.errors import InputError
from remanence.evaluation.adapters import EstimatorAdapter, MethodLike, check_learner, name_of
from remanence.evaluation.losses import BY_ROW, choose_loss, squared, zero_one
from remanence.labels import are_numbers
from remanence.methods.protocol import Method
from remanence.progress import progress_bar
from remanence.validation import check_count

TRACKED = 4096  # rows per call of `track`, which finds the error of each row whatever the size of the call
POINTS = 1000  # at most, of a curve that is drawn


@dataclass(frozen=True)
class Prequential:
    """The errors of a stream of rows, each measured before the row was learned.

    Parameters
    ----------
    errors : array (n,)
        Of every row: 1 for a wrong label and 0 for a right one, or the squared error, averaged over the outputs. NaN
        where the learner could not predict yet.
    loss : "zero_one" or "squared"
    learner : str
        What was trained.
    seconds : float
        The time it took to predict and to learn.
    state : optional
        The state of a method after the last row.

    Examples
    --------
    >>> import remanence as rm
    >>> result = rm.Prequential([1.0, 0.0, 1.0, 0.0, 0.0], "zero_one")
    >>> result.accuracy, result.curve(window=2).tolist()
    (0.6, [1.0, 0.5, 0.5, 0.5, 0.0])
    """

    errors: Array
    loss: str
    learner: str = ""
    seconds: float = float("nan")
    state: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        errors = np.array(self.errors, dtype=float)
        if errors.ndim != 1 or not len(errors):
            raise InputError(f"expected the errors of one row or more, (n,), got shape {errors.shape}")
        object.__setattr__(self, "errors", read_only(errors))

    @property
    def error(self) -> float:
        """The mean error over all rows that could be predicted."""
        return float(self.curve()[-1])

    @property
    def accuracy(self) -> float:
        """The share of right labels; only for loss "zero_one"."""
        if self.loss != "zero_one":
            raise InputError(f"expected errors of loss 'zero_one', got {self.loss!r}; read .error instead")
        return 1.0 - self.error

    def curve(self, window: int | None = None) -> Array:
        """The mean error over the last `window` rows at every row, or over all rows so far, (n,).

        Parameters
        ----------
        window : int, optional

        Returns
        -------
        array (n,)
        """
        known = np.isfinite(self.errors)
        sums, counts = (np.cumsum(part, dtype=float) for part in (np.where(known, self.errors, 0.0), known))
        if window is not None and check_count(window, "window") < len(sums):
            sums, counts = (np.concatenate([part[:window], part[window:] - part[:-window]]) for part in (sums, counts))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts)

    def plot(self, ax: Any = None, window: int | None = None) -> Any:
        """Draw the error over the last `window` rows on the given or new matplotlib axes, and return them.

        Parameters
        ----------
        ax : matplotlib axes, optional
        window : int, optional
            A twentieth of the rows by default.

        Returns
        -------
        matplotlib axes
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        rows = len(self.errors)
        window = max(1, rows // 20) if window is None else window
        places = np.unique(np.linspace(0, rows - 1, POINTS).astype(int))
        percent = 100.0 if self.loss == "zero_one" else 1.0
        lines = (
            (window, f"last {window} rows", {"linewidth": 2}),
            (None, "all rows so far", {"linestyle": (0, (4, 3))}),
        )
        for size, label, style in lines:
            ax.plot(places + 1, percent * self.curve(size)[places], label=label, **style)
        ylabel = "wrong labels in %" if self.loss == "zero_one" else "mean squared error"
        ax.set(xlabel="rows learned", ylabel=ylabel, title=self.learner)
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        shown = f"{self.accuracy:.1%} right" if self.loss == "zero_one" else f"mean squared error {self.error:.4g}"
        title = f"{self.learner}: " if self.learner else ""
        return f"{title}{shown} over {len(self.errors)} rows, each before it was learned"


def prequential(
    learner: Any, X: Any, y: Any, block: int = 1, loss: str | None = None, progress: bool | None = None
) -> Prequential:
    """Predict, then learn: a fresh copy of a learner on a stream of rows, and its error on each before it learned it.

    Parameters
    ----------
    learner : estimator or method
        With `partial_fit` and `predict`, or with `init`, `track` and `predict`. It is not changed.
    X : array (n, d)
        Rows in time order.
    y : array (n,) or (n, outputs)
        Numbers, or labels. A method learns labels as one output of 0 and 1 per class, and its prediction is the class
        with the largest output.
    block : int
        Rows that are predicted together before any of them is learned. A method whose `update` is a task, such as
        Kalman, learns each block as one task.
    loss : "zero_one" or "squared", optional
        By default the loss that suits the learner and the targets; for a method integers are numbers, so integer
        labels need "zero_one".
    progress : bool, optional
        Show a progress bar; by default on a terminal, for long runs.

    Returns
    -------
    Prequential
        With `errors` by row, `curve(window)` and `plot()`.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 3))
    >>> y = X[:, 0] * np.where(np.arange(400) < 200, 1, -1)  # the sign changes in the middle
    >>> result = rm.prequential(rm.RLS(forget=0.9), X, y)
    >>> bool(result.curve(window=50)[190] < 0.01 < result.curve(window=50)[210])
    True
    >>> bool(result.error < rm.prequential(rm.RLS(), X, y).error)
    True

    References
    ----------
    Dawid (1984), "Statistical theory: the prequential approach", Journal of the Royal Statistical Society A.
    """
    learner = check_learner(learner)
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim < 2 or not len(X) or y.ndim not in (1, 2) or len(X) != len(y):
        raise InputError(f"expected rows X (n, d) and y (n,) or (n, outputs), got {X.shape} and {y.shape}")
    check_count(block, "block", hint="the number of rows that are predicted together")
    if loss is not None and loss not in BY_ROW:
        raise InputError(f"expected loss to be one of {sorted(BY_ROW)} or None, got {loss!r:.60}")
    if loss is None and isinstance(learner, MethodLike) and y.ndim == 1 and not are_numbers(y):
        loss = "zero_one"
    loss = str(choose_loss(loss, learner, y))
    run = _track if isinstance(learner, MethodLike) else _test_then_train
    with progress_bar(f"{type(learner).__name__} on {len(X)} rows", len(X), progress) as advance:
        begin = perf_counter()
        errors, state = run(learner, X, y, block, loss, advance)
        seconds = perf_counter() - begin
    return Prequential(errors, loss, name_of(learner), seconds, state)


Advance = Callable[..., None]


def _track(method: Any, X: Array, y: Array, block: int, loss: str, advance: Advance) -> tuple[Array, Any]:
    """A method: the errors that `track` returns, or those of blocks that are predicted and then learned."""
    Y = _outputs(y, loss)
    by_row = block == 1 and isinstance(method, Method) and not method.task_per_update
    state, parts, size = method.init(X.shape[1], Y.shape[1]), [], TRACKED if by_row else block
    for i in range(0, len(X), size):
        rows, targets = X[i : i + size], Y[i : i + size]
        if by_row:
            state, errors = method.track(state, rows, targets)
        else:
            errors = targets - method.predict(state, rows)
            state = method.update(state, rows, targets)
        if loss == "squared":
            parts.append(squared(errors, np.zeros_like(errors)))
        else:
            parts.append(zero_one((targets - errors).argmax(axis=1), targets.argmax(axis=1)))
        advance(len(rows))
    return np.concatenate(parts), state


def _test_then_train(estimator: Any, X: Array, y: Array, block: int, loss: str, advance: Advance) -> tuple[Array, Any]:
    """An estimator: predict a block, then learn it; before the first one it cannot predict."""
    adapter, errors = EstimatorAdapter(estimator, [y]), np.full(len(X), np.nan)
    for i in range(0, len(X), block):
        part = slice(i, i + block)
        if i:
            errors[part] = BY_ROW[loss](adapter.predict(X[part]), y[part])
        adapter.learn(X[part], y[part])
        advance(len(y[part]))
    return errors, None


def _outputs(y: Array, loss: str) -> Array:
    """Targets of a method (n, c): numbers, or one output per class."""
    if loss == "zero_one":
        classes, codes = np.unique(y, return_inverse=True)
        return np.asarray(np.eye(len(classes))[codes])
    return (y[:, None] if y.ndim == 1 else y).astype(float)
