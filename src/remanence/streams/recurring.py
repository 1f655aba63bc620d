"""Streams that come back: the paper's p-recurring tasks."""

from collections.abc import Sequence

from remanence.errors import InputError
from remanence.streams.task import Task
from remanence.validation import check_count


def recurring(tasks: Sequence[Task], length: int) -> list[Task]:
    """A stream of `length` tasks that cycles through `tasks`: task t is task t − p, rows and answers alike.

    The paper asks only x_t = x_{t+p}; without y_t = y_{t+p} its theorems on recurring tasks fail.
    """
    cycle, length = list(tasks), check_count(length, "length")
    if not cycle:
        raise InputError("expected at least one task to repeat, got none")
    for task in cycle:
        if not isinstance(task, Task):
            raise InputError(f"expected a list of Task, got {type(task).__name__}; wrap it: Task(name, X, Y)")
    return [cycle[t % len(cycle)] for t in range(length)]
