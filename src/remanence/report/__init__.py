"""What a run found, as one value, and the ways to show it: terminal, pictures, one self-contained page."""

from remanence.report.compare import Contender, compare
from remanence.report.run import Outcome, Run

__all__ = ["Contender", "Outcome", "Run", "compare"]
