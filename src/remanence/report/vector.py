"""Pictures for the inside of a page: SVG in the reader's own colours, with words for those who do not see it."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

from remanence.certificates import Certificate, draw_map
from remanence.certificates import map_picture as chart
from remanence.report.outcome import Outcome
from remanence.report.pictures import INK, PAPER, accuracy_figure, matrix_figure, rendered
from remanence.report.run import Run
from remanence.terminal_text import printable

# What the picture of the map is drawn in, and the names the page has for it.
MAP_COLOURS = {
    chart.INK: "currentColor",
    chart.PAPER: "var(--card)",
    chart.GREY: "var(--soft)",
    chart.SHADES["nonlinear"]: "var(--shade)",
    chart.HOLDS: "var(--holds)",
    chart.FAILS: "var(--fails)",
}


def curve_picture(run: Run, prefix: str = "curve", places: Sequence[str] = ()) -> str:
    """Accuracy as the tasks go by; see `accuracy_figure` for `places`."""
    said = [f"{o.label}: {', '.join(f'{100 * share:.0f}' for share in o.curve)}" for o in run.outcomes]
    words = "Accuracy in % on the tasks learned so far, after each task"
    return inline(accuracy_figure(run, places), words, ". ".join(said) + ".", prefix)


def matrix_picture(outcome: Outcome, prefix: str) -> str:
    """The heat map of one learner."""
    matrix = outcome.matrix
    said = [f"{name}: {100 * error:.0f}" for name, error in zip(matrix.names, matrix.values[:, -1], strict=True)]
    shown = said if len(said) <= 12 else [*said[:6], "…", *said[-6:]]
    return inline(
        matrix_figure(outcome),
        f"Error matrix of {outcome.label}",
        f"Wrong answers in % on each task after the last one. {'; '.join(shown)}.",
        prefix,
    )


def map_of_methods(relations: Sequence[Certificate]) -> str:
    """The map of methods with what was measured on its lines."""
    with TemporaryDirectory() as place:
        file = Path(place) / "map.svg"
        draw_map(relations, file)
        svg = _embedded(file.read_text(encoding="utf-8"), "map")
    for colour, name in MAP_COLOURS.items():
        svg = svg.replace(colour, name)
    return svg


def inline(figure: Figure, title: str, description: str, prefix: str) -> str:
    """The figure as an SVG element that says what it shows."""
    text = _embedded(rendered(figure, "svg").decode(), prefix)
    text = text.replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")
    title, description = escape(printable(title)), escape(printable(description))
    words = f'<title id="{prefix}-title">{title}</title><desc id="{prefix}-desc">{description}</desc>'
    opening = f'<svg role="img" aria-labelledby="{prefix}-title {prefix}-desc"'
    text = text.replace("<svg", opening, 1)
    end = text.index(">") + 1
    return text[:end] + words + text[end:]


def _embedded(text: str, prefix: str) -> str:
    """SVG without what only a file needs; ids get a prefix, as ids of two figures on one page must differ."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|width|height)="[^"]*"', "", text[: text.index(">")]) + text[text.index(">") :]
    text = re.sub(r'\bid="', f'id="{prefix}-', text.replace("xlink:href", "href"))
    return re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", text)
