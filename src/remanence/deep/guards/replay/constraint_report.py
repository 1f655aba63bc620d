"""The report of a guard that holds losses on old tasks below bounds; printing it gives a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ConstraintReport:
    """The loss on every old task, its bound, and its multiplier; printing it gives a table.

    Parameters
    ----------
    kind : str
        Class name of the guard.
    rows : tuple of int
        Samples kept of every task.
    losses, bounds : tuple of float
        The mean loss on them now, and the largest one allowed.
    multipliers : tuple of float
        How fast the new task's loss would fall if a bound were raised: the old task with the largest one costs most.
        `GEM` reports the mean over the steps since the last `absorb`, in units of the optimizer's step.

    Examples
    --------
    >>> import remanence as rm
    >>> print(rm.deep.ConstraintReport("GEM", (50, 50), (0.11, 0.2), (0.1, 0.3), (2.0, 0.0)))
    GEM after 2 tasks
    task  samples      loss     bound  multiplier
    1          50      0.11       0.1           2
    2          50       0.2       0.3           0
    """

    kind: str
    rows: tuple[int, ...]
    losses: tuple[float, ...]
    bounds: tuple[float, ...]
    multipliers: tuple[float, ...]

    @property
    def tasks(self) -> int:
        """How many tasks were absorbed."""
        return len(self.rows)

    def __str__(self) -> str:
        lines = [f"{self.kind} after {self.tasks} tasks", "task  samples      loss     bound  multiplier"]
        columns = zip(self.rows, self.losses, self.bounds, self.multipliers, strict=True)
        lines += [f"{t:<4}  {n:>7}  {a:>8.3g}  {b:>8.3g}  {v:>10.3g}" for t, (n, a, b, v) in enumerate(columns, 1)]
        return "\n".join(lines)
