"""`import remanence.steps`: the module remanence.methods.steps under the name it has in `rm.steps`."""

import sys

from remanence.methods import steps
from remanence.methods.steps import *  # noqa: F403 (for readers of types)

sys.modules[__name__] = steps
