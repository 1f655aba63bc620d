"""A run as one self-contained HTML page: inline pictures, no scripts, no requests; light, dark and print styles."""

from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from remanence.certificates import Certificate
from remanence.report.pictures import accuracy_figure, rendered
from remanence.report.run import Run
from remanence.report.vector import RunPictures, curve_picture, matrix_pictures, reliability_picture, run_pictures
from remanence.report.words import CERTIFIED, EXPLAINED, MARKS, RETRAINED, all_notes, report_table, verdict

LISTED = 8  # classes and confusions
Found = tuple[Certificate, str]


def page(run: Run, pictures: RunPictures | None = None) -> str:
    """The whole page; the figures are drawn unless they are given."""
    pictures = run_pictures(run) if pictures is None else pictures
    return render(
        "run.html.j2",
        run=run,
        table=report_table(run),
        tasks=_tasks(run),
        errors=_errors(run),
        sure=_probabilities(run),
        notes=all_notes(run),
        explained=EXPLAINED,
        retrained=RETRAINED if any(outcome.role == "reference" for outcome in run.outcomes) else "",
        certified=CERTIFIED,
        forward=any((o.matrix.values < 0.9995)[np.tril_indices(len(run.tasks), 0)].any() for o in run.outcomes),
        curve=curve_picture(run, pictures.accuracy),
        maps=matrix_pictures(run, pictures),
        guarantees=_guarantees(run),
        relations=[(certificate, verdict(certificate)) for certificate in run.relations],
    )


def notebook_view(run: Run) -> str:
    """Headline, table and curve as HTML for a notebook."""
    curve = curve_picture(run, rendered(accuracy_figure(run), "svg"), f"notebook-{id(run)}")
    return render("notebook.html.j2", run=run, table=report_table(run), curve=curve)


def render(template: str, **values: Any) -> str:
    """Render a template of this package; an undefined name is an error."""
    return _templates().get_template(template).render(marks=MARKS, **values)


def _guarantees(run: Run) -> list[tuple[str, list[Found], list[Found]]]:
    """For each learner the certificates that apply and those that do not, with what was found."""
    found = []
    for outcome in run.outcomes:
        said = [(certificate, verdict(certificate)) for certificate in outcome.certificates]
        applying, others = ([pair for pair in said if bool(pair[0].unmet) is unmet] for unmet in (False, True))
        if said:
            found.append((outcome.label, applying, others))
    return found


def _tasks(run: Run) -> list[tuple[str, str, list[tuple[str, bool]]]]:
    """For each task its name, its rows, and the accuracy of each learner after the last task; the best is marked."""
    sizes = [f"{t.rows:,} + {t.test_rows:,}" for t in run.data.tasks] if run.data else [""] * len(run.tasks)
    shares = np.array([100 * (1 - o.matrix.values[:, -1]) for o in run.ranked]).T  # (tasks, learners)
    return [
        (name, size, [(f"{share:.1f}", len(row) > 1 and share == max(row)) for share in row])
        for name, size, row in zip(run.tasks, sizes, shares.tolist(), strict=True)
    ]


def _errors(run: Run) -> dict[str, Any] | None:
    """The hardest classes and the most frequent confusions of the best learner, beside the best reference."""
    confusion, reference = run.best.confusion, run.best_reference
    if confusion is None or not confusion.wrong or len(confusion.labels) < 3:
        return None
    other = reference.confusion if reference is not None else None
    beside = dict(zip(other.labels, other.accuracies, strict=True)) if other is not None else {}
    rows = dict(zip(confusion.labels, confusion.counts.sum(axis=1), strict=True))
    return {
        "reference": reference if beside else None,
        "classes": [
            (label, n, f"{100 * share:.0f}", f"{100 * beside.get(label, np.nan):.0f}")
            for label, n, share in confusion.hardest(LISTED)
            if share < 1
        ],
        "pairs": [(true, as_, n, f"{100 * n / rows[true]:.0f} %") for true, as_, n in confusion.most_frequent(LISTED)],
    }


def _probabilities(run: Run) -> dict[str, Any] | None:
    """How far the probabilities of every learner that gives some can be relied on.

    Those of the best learner and of the best reference of them are drawn.
    """
    found = [(outcome, outcome.reliability) for outcome in run.ranked if outcome.reliability is not None]
    if not found:
        return None
    parts = ([o for o, _ in found if (o.role == "reference") is reference] for reference in (False, True))
    drawn = [outcome for part in parts for outcome in part[:1]]
    figures = [(outcome.label, f"{r.log_loss:.3f}", f"{r.error:.3f}") for outcome, r in found]
    return {"figures": figures, "picture": reliability_picture(run, drawn), "rows": found[0][1].rows}


def unbroken(text: str) -> str:
    """Text in which a number is not parted from its per cent sign."""
    return text.replace(" %", "\u00a0%")


def breakable(name: Any) -> Markup:
    """A name that may be broken after an underscore."""
    return Markup(str(escape(str(name))).replace("_", "_<wbr>"))


@cache
def _templates() -> Environment:
    loader = PackageLoader("remanence.report", "templates")
    found = Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters["unbroken"] = unbroken
    found.filters["breakable"] = breakable
    return found
