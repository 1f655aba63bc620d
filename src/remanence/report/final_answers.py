"""An observer of a run that keeps what the learner answers to all test rows after the last task, and how sure it is."""

from collections.abc import Sequence

import numpy as np

from remanence.evaluation.confusion import Confusion
from remanence.evaluation.observers import TaskStep
from remanence.evaluation.reliability import Reliability
from remanence.streams import Task


class FinalAnswers:
    """The confusion counts, and the reliability of probabilities, on the test rows of all tasks after the last one."""

    def __init__(self, stream: Sequence[Task]) -> None:
        self.stream = stream
        self.confusion: Confusion | None = None
        self.reliability: Reliability | None = None

    def __call__(self, step: TaskStep) -> None:
        if step.number == len(self.stream):
            predicted = [np.asarray(step.predict(task.X_test)) for task in self.stream]
            true = np.concatenate([task.Y_test for task in self.stream])
            self.confusion = Confusion.of(true, np.concatenate(predicted))
            probabilities, classes = (getattr(step.learner, name, None) for name in ("predict_proba", "classes_"))
            if probabilities is not None and classes is not None:
                given = np.concatenate([np.asarray(probabilities(task.X_test)) for task in self.stream])
                self.reliability = Reliability.of(given, true, np.asarray(classes).tolist())
