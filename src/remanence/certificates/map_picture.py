"""The map of methods as an SVG picture, with the error measured on every edge.

Text stays text, the background is part of the picture so that it is readable on light and dark pages, and a title and
a description are there for screen readers.
"""

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from remanence.certificates.catalogue import catalogue, claims_without_torch
from remanence.certificates.certificate import Certificate
from remanence.certificates.method_map import CORNERS, EDGES, NODES, Edge, Place
from remanence.files import write_atomically

INK, PAPER, GREY = "#1b1f24", "#fbfbfa", "#6e7781"
HOLDS, FAILS = "#0072b2", "#d55e00"  # told apart by colour-blind readers too; a failure is also thicker
SHADES = {"linear": PAPER, "nonlinear": "#d9dce0", "deep": PAPER}
MEANING = {"linear": "linear models", "nonlinear": "nonlinear models", "deep": "deep networks"}
TITLE = "How the methods relate, and how far each relation was off"
ACROSS, UPWARDS = 2.0, 1.5  # inches a unit of place


def checked_edges(certificates: Iterable[Certificate]) -> dict[Edge, Certificate]:
    """The certificate for each edge: of several the one with the largest measured / allowed."""
    certificates = list(certificates)
    edges = {claim.name: claim.edge for claim in claims_without_torch()}
    if not edges.keys() >= {certificate.name for certificate in certificates}:
        edges = {claim.name: claim.edge for claim in catalogue()}
    found: dict[Edge, Certificate] = {}
    for certificate in certificates:
        edge = edges.get(certificate.name)
        if edge is not None and (edge not in found or certificate.strain > found[edge].strain):
            found[edge] = certificate
    return found


def draw_map(certificates: Iterable[Certificate], path: str | Path) -> None:
    """Write the map of methods as an SVG file; edges without a certificate are dashed.

    Parameters
    ----------
    certificates : iterable of Certificate
        What `verify` returns; certificates of claims without an edge are ignored.
    path : str or Path
        The file to write.

    Examples
    --------
    >>> import remanence as rm, tempfile, pathlib
    >>> found = rm.certificates.verify(instances=1, claims=["orfit_is_icl"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "map.svg"
    ...     rm.certificates.draw_map(found, path)
    ...     "ORFit and ICL: holds" in path.read_text(encoding="utf-8")
    True

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning", the figure of all methods.
    """
    found = checked_edges(certificates)
    write_atomically(Path(path), _described(_rendered(found), found).encode())


def _rendered(found: dict[Edge, Certificate]) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "remanence", "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(12.4, 6.0), facecolor=PAPER)
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(-1.3, 11.1), ylim=(-1.1, 4.9), aspect="equal")
        ax.set_axis_off()
        for edge in EDGES:
            _draw_edge(ax, edge, found.get(edge))
        for node in NODES:
            _draw_box(ax, _at(node.place), node.name, node.made_for)
        _draw_words(ax)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", facecolor=PAPER, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _at(place: Place) -> Place:
    return place[0] * ACROSS, place[1] * UPWARDS


def _draw_edge(ax: Any, edge: Edge, certificate: Certificate | None) -> None:
    places = {node.name: node.place for node in NODES}
    ends = [places[edge[0]], *([CORNERS[edge]] if edge in CORNERS else []), places[edge[1]]]
    points = [_at(place) for place in ends]
    colour = GREY if certificate is None else HOLDS if certificate.holds else FAILS
    width = 3.0 if certificate is not None and not certificate.holds else 1.6
    dashes = (0, (4, 3)) if certificate is None else "solid"
    ax.plot(*zip(*points, strict=True), color=colour, linewidth=width, linestyle=dashes, zorder=1)
    (ax0, ay0), (ax1, ay1) = points[-2:]  # the last stretch carries the number
    middle = ((ax0 + ax1) / 2, (ay0 + ay1) / 2)
    if certificate is not None:
        ground = {"boxstyle": "round,pad=0.18", "facecolor": PAPER, "edgecolor": "none"}
        label = _number(certificate)
        ax.text(*middle, label, color=colour, fontsize=9.5, ha="center", va="center", bbox=ground, zorder=2)


def _number(certificate: Certificate) -> str:
    if certificate.kind == "identity":
        return f"{certificate.measured:.0e}"
    return f"{certificate.measured:.0e} {'≤' if certificate.holds else '>'} {certificate.allowed:.0e}"


def _draw_box(ax: Any, centre: Place, name: str, made_for: str, small: bool = False) -> None:
    from matplotlib.patches import FancyBboxPatch

    name = name.replace(" ", "\n")
    width, height = (0.36, 0.22) if small else (1.1, 0.56 if "\n" in name else 0.42)
    shape = "square,pad=0" if made_for == "linear" else f"round,pad=0,rounding_size={0.4 * height}"
    corner = (centre[0] - width / 2, centre[1] - height / 2)
    box = FancyBboxPatch(
        corner, width, height, boxstyle=shape, facecolor=SHADES[made_for], edgecolor=INK, linewidth=1.2
    )
    box.set_zorder(3)
    ax.add_patch(box)
    ax.text(*centre, name, color=INK, fontsize=11, ha="center", va="center", zorder=4)


def _draw_words(ax: Any) -> None:
    ax.text(-1.0, 4.55, TITLE, color=INK, fontsize=14, fontweight="bold", va="center")
    ax.text(-1.0, 4.0, "First proposed for", color=INK, fontsize=10, va="center")
    for k, (made_for, meaning) in enumerate(MEANING.items()):
        y = 3.6 - 0.34 * k
        _draw_box(ax, (-0.8, y), "", made_for, small=True)
        ax.text(-0.5, y, meaning, color=INK, fontsize=10, va="center")
    note = "Lines are equalities, special cases or limits; numbers are errors in the worst case. Dashed: not checked."
    ax.text(-1.0, -0.75, note, color=GREY, fontsize=9.5, va="center")


def _described(svg: str, found: dict[Edge, Certificate]) -> str:
    """With the title and the description that readers of the page hear."""
    lines = []
    for one, other in EDGES:
        certificate = found.get((one, other))
        said = "not checked" if certificate is None else f"{certificate.status}, off by {certificate.measured:.0e}"
        lines.append(f"{one} and {other}: {said}")
    words = f"<title id='map-title'>{escape(TITLE)}</title>\n<desc id='map-text'>{escape('. '.join(lines))}.</desc>\n"
    opening = re.compile(r"<svg [^>]*>")
    match = opening.search(svg)
    assert match is not None
    tag = match.group().replace("<svg ", '<svg role="img" aria-labelledby="map-title map-text" ', 1)
    return svg[: match.start()] + tag + "\n" + words + svg[match.end() :]
