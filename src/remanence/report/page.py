"""A run as one self-contained HTML page: inline pictures, no scripts, no requests; light, dark and print styles."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from remanence.certificates import Certificate
from remanence.report.pictures import accuracy_figure, rendered
from remanence.report.run import Run
from remanence.report.vector import RunPictures, curve_picture, map_of_methods, matrix_pictures, run_pictures
from remanence.report.words import CERTIFIED, EXPLAINED, MARKS, all_notes, figures, verdict

Found = tuple[Certificate, str]


def page(run: Run, pictures: RunPictures | None = None) -> str:
    """The whole page; the figures are drawn unless they are given."""
    pictures = run_pictures(run) if pictures is None else pictures
    return render(
        "run.html.j2",
        run=run,
        rows=[(outcome, figures(outcome)) for outcome in run.outcomes],
        notes=all_notes(run),
        explained=EXPLAINED,
        certified=CERTIFIED,
        curve=curve_picture(run, pictures.accuracy),
        maps=matrix_pictures(run, pictures),
        guarantees=_guarantees(run),
        methods=map_of_methods(run.relations) if run.relations else "",
    )


def notebook_view(run: Run) -> str:
    """Headline, table and curve as HTML for a notebook."""
    rows = [(outcome, figures(outcome)) for outcome in run.outcomes]
    curve = curve_picture(run, rendered(accuracy_figure(run), "svg"), f"notebook-{id(run)}")
    return render("notebook.html.j2", run=run, rows=rows, curve=curve)


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


@cache
def _templates() -> Environment:
    loader = PackageLoader("remanence.report", "templates")
    return Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
