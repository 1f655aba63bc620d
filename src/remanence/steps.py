"""`import remanence.steps`: the module remanence.methods.step_sizes under the name it has in `rm.steps`."""

import sys

from remanence.methods import step_sizes as steps
from remanence.methods.step_sizes import *  # noqa: F403 (for readers of types)

sys.modules[__name__] = steps
