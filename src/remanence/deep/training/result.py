"""What came out of training a network over a stream."""

from dataclasses import dataclass
from typing import Any

from remanence.arrays import Array
from remanence.evaluation.matrix import ErrorMatrix


@dataclass(frozen=True, eq=False)
class StreamFit:
    """The errors of every task after every task, the losses on the way, and what the guard reported."""

    matrix: ErrorMatrix
    losses: tuple[tuple[float, ...], ...]  # of each task, the mean training loss of each epoch
    validation_losses: tuple[tuple[float, ...], ...]  # likewise; empty without validation rows
    reports: tuple[Any, ...]  # what guard.absorb returned after each task; empty without a guard
    seconds: Array  # (T,) of training and absorbing each task
    labels: tuple[Array, ...]  # of each task, the label each of its outputs stands for; empty for numbers

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
