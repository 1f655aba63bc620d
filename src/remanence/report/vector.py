"""Pictures for the inside of a page: SVG in the reader's colour scheme, with a title and a description in text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from remanence.report.outcome import Outcome
from remanence.report.pictures import (
    INK,
    PAPER,
    Box,
    accuracy_figure,
    map_boxes,
    matrices_figure,
    reliability_figure,
    rendered,
)
from remanence.report.run import Run
from remanence.terminal_text import printable


@dataclass(frozen=True, slots=True)
class RunPictures:
    """The figures of a run as SVG, each drawn once."""

    accuracy: bytes
    matrices: bytes
    boxes: Sequence[Box]  # of each learner's map among the matrices


def run_pictures(run: Run) -> RunPictures:
    """Draw the figures of a run for its page."""
    matrices = matrices_figure(run)
    return RunPictures(rendered(accuracy_figure(run), "svg"), rendered(matrices, "svg"), map_boxes(matrices))


def curve_picture(run: Run, accuracy: bytes, prefix: str = "curve") -> str:
    """The accuracy after each task, from the SVG of `accuracy_figure`."""
    curves = [f"{o.label}: {', '.join(f'{100 * share:.0f}' for share in o.curve)}" for o in run.outcomes]
    title = "Accuracy in % on the tasks learned so far, after each task"
    return described(_embedded(accuracy.decode(), prefix), title, ". ".join(curves) + ".", prefix)


def reliability_picture(run: Run, outcomes: Sequence[Outcome], prefix: str = "reliability") -> str:
    """How often answers were right, by the probability given to them."""
    said = [f"{o.label}: calibration error {o.reliability.error:.3f}" for o in outcomes if o.reliability is not None]
    title = "Answers that were right in %, by the probability given to them"
    svg = rendered(reliability_figure(run, outcomes), "svg").decode()
    return described(_embedded(svg, prefix), title, ". ".join(said) + ".", prefix)


def matrix_pictures(run: Run, pictures: RunPictures) -> list[tuple[str, str]]:
    """The label of each learner and its heat map, cut out of the figure of all of them."""
    svg = pictures.matrices.decode()
    return [
        (outcome.label, _matrix_picture(outcome, _embedded(_cut_out(svg, k, box), f"heat{k}"), f"heat{k}"))
        for k, (outcome, box) in enumerate(zip(run.ranked, pictures.boxes, strict=False))
    ]


def _matrix_picture(outcome: Outcome, svg: str, prefix: str) -> str:
    matrix = outcome.matrix
    errors = [f"{name}: {100 * error:.0f}" for name, error in zip(matrix.names, matrix.values[:, -1], strict=True)]
    shown = errors if len(errors) <= 12 else [*errors[:6], "…", *errors[-6:]]
    title = f"Error matrix of {outcome.label}"
    return described(svg, title, f"Wrong predictions in % on each task after the last one. {'; '.join(shown)}.", prefix)


def _cut_out(svg: str, k: int, box: Box) -> str:
    """An SVG element with axes k of a figure alone, without its title."""
    group = re.search(rf'^  <g id="axes_{k + 1}">.*?^  </g>', svg, flags=re.DOTALL | re.MULTILINE)
    assert group is not None, f"the figure has no axes {k + 1}"
    text = re.sub(rf'<g id="title_{k + 1}">.*?</g>', "", group[0], flags=re.DOTALL)
    text = re.sub(r' clip-path="[^"]*"', "", text)  # of the picture, which fills the axes
    return f'<svg viewBox="{" ".join(f"{side:.2f}" for side in box)}">{text}</svg>'


def described(svg: str, title: str, description: str, prefix: str) -> str:
    """An SVG element in the colours of the page, with a title and a description that screen readers find."""
    svg = svg.replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")
    title, description = escape(printable(title)), escape(printable(description))
    texts = f'<title id="{prefix}-title">{title}</title><desc id="{prefix}-desc">{description}</desc>'
    svg = svg.replace("<svg", f'<svg role="img" aria-labelledby="{prefix}-title {prefix}-desc"', 1)
    end = svg.index(">") + 1
    return svg[:end] + texts + svg[end:]


def _embedded(text: str, prefix: str) -> str:
    """SVG without what only a file needs; ids get a prefix, as ids of two figures on one page must differ."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|width|height)="[^"]*"', "", text[: text.index(">")]) + text[text.index(">") :]
    text = re.sub(r'\bid="', f'id="{prefix}-', text.replace("xlink:href", "href"))
    return re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", text)
