"""Results of a run as one value, and its presentation: terminal, pictures, a self-contained HTML page."""

from remanence.report.compare import Contender, compare, repeat
from remanence.report.kept import RunFolder
from remanence.report.outcome import Outcome
from remanence.report.run import Run

__all__ = ["Contender", "Outcome", "Run", "RunFolder", "compare", "repeat"]
