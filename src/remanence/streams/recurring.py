"""Recurring streams: the paper's p-recurring tasks."""

from collections.abc import Sequence

from remanence.errors import InputError
from remanence.streams.task import Task
from remanence.validation import check_count


def recurring(tasks: Sequence[Task], length: int) -> list[Task]:
    """Repeat tasks cyclically: task t equals task t − p, rows and targets alike.

    The paper requires only x_t = x_{t+p}; without y_t = y_{t+p} its theorems on recurring tasks fail.

    Parameters
    ----------
    tasks : sequence of Task
        The p distinct tasks.
    length : int
        The number of tasks in the stream.

    Returns
    -------
    list of Task

    Examples
    --------
    >>> import remanence as rm
    >>> [task.name for task in rm.streams.recurring(rm.streams.linear(tasks=2, features=3), 5)]
    ['task 1', 'task 2', 'task 1', 'task 2', 'task 1']

    References
    ----------
    Evron et al. (2022), "How catastrophic can catastrophic forgetting be in linear regression?", COLT.
    """
    cycle, length = list(tasks), check_count(length, "length")
    if not cycle:
        raise InputError("expected at least one task to repeat, got none")
    for task in cycle:
        if not isinstance(task, Task):
            raise InputError(f"expected a list of Task, got {type(task).__name__}; wrap it: Task(name, X, Y)")
    return [cycle[t % len(cycle)] for t in range(length)]
