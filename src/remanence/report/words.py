"""The texts and number formats of a run, for the terminal, the page and notebooks."""

import math

from remanence.certificates import Certificate
from remanence.report.outcome import Outcome
from remanence.report.run import Run

MARKS = {"holds": "✓", "fails": "✗", "does not apply": "–"}
EXPLAINED = (
    "Accuracy is the mean over all tasks after the last one. Forgetting and transfer are in percentage points: by how "
    "much the accuracy on a task fell after it was learned, by how much it rose through later tasks (backward) and "
    "through earlier tasks (forward). Memory is the size of the arrays the learner keeps between tasks."
)
CERTIFIED = (
    "Each guarantee was checked on this run. A learner for which no such guarantee exists may fail it. Where a "
    "condition is not met, it does not apply. This is evidence on these data, not a proof."
)


def figures(outcome: Outcome) -> list[str]:
    """Accuracy in per cent, differences in points with their sign, seconds, memory; over several seeds with ± sd."""
    m, sd = outcome.metrics, outcome.spread
    cells = [_with_spread(f"{100 * m['average_accuracy']:.1f}", 100 * sd.get("average_accuracy", math.nan), 1)]
    for key in ("forgetting", "backward_transfer", "forward_transfer"):
        cells.append(_with_spread(_points(m[key]), 100 * sd.get(key, math.nan), 1))
    return [*cells, _with_spread(f"{m['seconds']:.3f}", sd.get("seconds", math.nan), 3), in_bytes(m["memory"])]


def in_bytes(count: float) -> str:
    """A number of bytes with three digits and its unit."""
    if math.isnan(count):
        return "–"
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def verdict(certificate: Certificate) -> str:
    """Measured and allowed, or the condition that is not met, in one line."""
    if certificate.status == "does not apply":
        return certificate.unmet
    return f"measured {short(certificate.measured)}, allowed {short(certificate.allowed)}"


def short(number: float) -> str:
    """A number in a few characters."""
    return "0" if number == 0 else f"{number:.3g}" if 0.01 <= abs(number) < 1000 else f"{number:.1e}"


def all_notes(run: Run) -> list[str]:
    """Remarks about the stream, then about single learners."""
    return [*run.notes, *(outcome.note for outcome in run.outcomes if outcome.note)]


def _with_spread(figure: str, sd: float, digits: int) -> str:
    return figure if math.isnan(sd) else f"{figure} ± {sd:.{digits}f}"


def _points(share: float) -> str:
    rounded = round(100 * share, 1) + 0.0  # no negative zero
    return f"{rounded:.1f}".replace("-", "−")
