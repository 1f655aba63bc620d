"""The task loop, the error matrix it fills, and the metrics computed from it."""

from remanence.evaluation import metrics
from remanence.evaluation.curve import ErrorCurve
from remanence.evaluation.loop import evaluate
from remanence.evaluation.matrix import ErrorMatrix
from remanence.evaluation.observers import Observer, TaskStep
from remanence.evaluation.prequential import Prequential, prequential

__all__ = ["ErrorCurve", "ErrorMatrix", "Observer", "Prequential", "TaskStep", "evaluate", "metrics", "prequential"]
