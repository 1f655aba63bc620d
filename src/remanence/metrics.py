"""`import remanence.metrics`: the module remanence.evaluation.metrics under the name it has in `rm.metrics`."""

import sys

from remanence.evaluation import metrics
from remanence.evaluation.metrics import *  # noqa: F403 (for readers of types)

sys.modules[__name__] = metrics
