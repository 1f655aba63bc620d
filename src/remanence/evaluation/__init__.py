"""The one task loop, the matrix of errors it fills, and the numbers read from it."""

from remanence.evaluation import metrics
from remanence.evaluation.loop import evaluate
from remanence.evaluation.matrix import ErrorMatrix

__all__ = ["ErrorMatrix", "evaluate", "metrics"]
