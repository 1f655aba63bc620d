"""The texts and number formats of a run, for the terminal, the page and notebooks."""

import math

from remanence.certificates import Certificate
from remanence.report.outcome import Outcome
from remanence.report.run import Run

MARKS = {"holds": "✓", "fails": "✗", "does not apply": "–"}
EXPLAINED = (
    "Accuracy is the mean over all tasks after the last one. Forgetting is by how many percentage points the accuracy "
    "on a task fell after it was learned, on average; forward transfer, by how many earlier tasks raised it before. "
    "Memory is the size of the arrays the learner keeps between tasks."
)
RETRAINED = "References keep all rows and are trained on all of them anew after each task."
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


def report_table(run: Run) -> tuple[list[str], list[tuple[Outcome, str, list[str]]]]:
    """Headings, and for each learner, the best first, its outcome, its mark and its cells.

    Backward transfer is left out, which is forgetting with the other sign, and forward transfer where it is 0 for all.
    """
    headings = ["Accuracy, %", "Forgetting", "Backward transfer", "Forward transfer", "Seconds", "Memory"]
    rows = [(outcome, figures(outcome)) for outcome in run.ranked]
    transferred = any(cells[3].split(" ")[0] != "0.0" for _, cells in rows)
    shown = [k for k in range(len(headings)) if k != 2 and (k != 3 or transferred)]
    return [headings[k] for k in shown], [(o, best_mark(run, o), [cells[k] for k in shown]) for o, cells in rows]


def best_mark(run: Run, outcome: Outcome) -> str:
    """ "best" for the best of a run, "best learner" for the best learner if a reference is better."""
    if len(run.outcomes) == 1 or outcome not in (run.ranked[0], run.best):
        return ""
    return "best" if outcome is run.ranked[0] else "best learner" if outcome.role == "learner" else ""


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
    return f"measured {measured(certificate)}, allowed {short(certificate.allowed)}"


def measured(certificate: Certificate) -> str:
    """What was measured; less than nothing is not a number of interest."""
    return "below 0" if certificate.measured < 0 else short(certificate.measured)


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
