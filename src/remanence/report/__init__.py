"""What a run found, as one value, and the ways to show it: terminal, pictures, one self-contained page."""

from remanence.report.compare import Contender, compare, repeat
from remanence.report.kept import RunFolder
from remanence.report.outcome import Outcome
from remanence.report.run import Run

__all__ = ["Contender", "Outcome", "Run", "RunFolder", "compare", "repeat"]
