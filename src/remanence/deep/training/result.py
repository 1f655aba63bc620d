"""The result of training a network over a stream."""

from dataclasses import dataclass
from typing import Any

from remanence.arrays import Array
from remanence.evaluation.matrix import ErrorMatrix


@dataclass(frozen=True, eq=False)
class StreamFit:
    """Result of `fit_stream` and `joint`: error matrix, losses, guard reports and times; printing it gives a table.

    Parameters
    ----------
    matrix : ErrorMatrix
        Errors of every task after every task.
    losses : tuple of tuples of float
        For each task the mean training loss of each epoch.
    validation_losses : tuple of tuples of float
        For each task the validation loss of each epoch; empty without validation rows.
    reports : tuple
        What guard.absorb returned after each task; empty without a guard.
    seconds : ndarray of shape (T,)
        Time to train and absorb each task.
    labels : tuple of ndarray
        For each task the label of each of its outputs; empty for real targets.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    >>> fit = rm.deep.fit_stream(torch.nn.Linear(64, 10), rm.streams.digits(5)[:2], optimizer=sgd)
    >>> fit.matrix.values.shape, len(fit.losses)
    ((2, 3), 2)
    """

    matrix: ErrorMatrix
    losses: tuple[tuple[float, ...], ...]
    validation_losses: tuple[tuple[float, ...], ...]
    reports: tuple[Any, ...]
    seconds: Array  # (T,)
    labels: tuple[Array, ...]

    def __str__(self) -> str:
        errors = self.matrix.values
        counted = self.matrix.loss == "zero_one"
        width = max(len(name) for name in (*self.matrix.names, "task"))
        lines = [
            f"{self.matrix.learner}: {self.matrix.loss} error",
            f"{'task':<{width}}  epochs      loss   learned    at end   seconds",
        ]
        for i, name in enumerate(self.matrix.names):
            loss = f"{self.losses[i][-1]:.4g}" if self.losses[i] else "–"
            figures = [errors[i, i + 1], errors[i, -1]]
            shown = "".join(f"{100 * e:>9.2f}%" if counted else f"{e:>10.4g}" for e in figures)
            lines.append(f"{name:<{width}}  {len(self.losses[i]):>6}{loss:>10}{shown}{self.seconds[i]:>10.1f}")
        mean = float(errors[:, -1].mean())
        end = f"{100 * mean:.2f}%" if counted else f"{mean:.4g}"
        return "\n".join([*lines, f"mean error of all tasks at the end {end}, {self.seconds.sum():.1f} s"])
