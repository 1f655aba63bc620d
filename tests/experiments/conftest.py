"""The experiments are no part of the installed package; tests find them beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
