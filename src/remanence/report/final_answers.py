"""An observer of a run that keeps what the learner answers to all test rows after the last task."""

from collections.abc import Sequence

import numpy as np

from remanence.evaluation.confusion import Confusion
from remanence.evaluation.observers import TaskStep
from remanence.streams import Task


class FinalAnswers:
    """The confusion counts on the test rows of all tasks, after the last one."""

    def __init__(self, stream: Sequence[Task]) -> None:
        self.stream = stream
        self.confusion: Confusion | None = None

    def __call__(self, step: TaskStep) -> None:
        if step.number == len(self.stream):
            predicted = [np.asarray(step.predict(task.X_test)) for task in self.stream]
            true = [task.Y_test for task in self.stream]
            self.confusion = Confusion.of(np.concatenate(true), np.concatenate(predicted))
