"""The figures of a run: heat maps of the errors on one colour scale, and accuracy after each task.

Figures are built without pyplot, so there is no window and no global state. The colours suit colour-blind readers
(cividis; the palette of Okabe and Ito), and every line has a marker of its own.
"""

import io
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from remanence.arrays import Array
from remanence.report.outcome import Outcome
from remanence.report.run import Run
from remanence.terminal_text import printable

INK, PAPER = "#1b1f24", "#fefefe"  # the page replaces them by the reader's colour scheme
COLOURS = "cividis"
FAINT = 0.15  # opacity of what was not learned yet
PALETTE = ("#d55e00", "#56b4e9", "#e69f00", "#cc79a7", "#009e73", "#0072b2", "#9467bd", "#a6761d", "#8c8c8c")
DASHES = ((4, 3), (1, 2), (6, 2, 1, 2))  # of references
NEAR = 0.25  # a learner that ends further below the best may leave the picture of the others
SPACE = 0.062  # between the labels of two lines, of the height of the axes
FEW = 5  # rows, below which a point of a reliability diagram is faint
NUMBERED = 10  # tasks, up to which a heat map has numbers
LONGEST = 26  # letters of a label in a picture
MARGIN = 3.0  # points around a map that is cut out of a figure
MARKERS = "osD^vPX*<>"
Box = tuple[float, float, float, float]  # left, top, width and height, in points
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "legend.frameon": False,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",  # text stays text: small, sharp, searchable
    "svg.hashsalt": "remanence",
    "text.color": INK,
    "text.parse_math": False,  # dollar signs in labels are not formulas
    "xtick.color": INK,
    "ytick.color": INK,
}


def matrices_figure(run: Run) -> Figure:
    """The error matrices of all learners, the best first, side by side on one colour scale."""
    count = len(run.outcomes)
    columns = 2 if count == 4 else min(3, count)
    rows = -(-count // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.3 * columns + 0.9, 2.9 * rows + 0.3), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for k, ax in enumerate(axes.flat):
            if k >= count:
                ax.set_axis_off()
                continue
            draw_matrix(ax, run.ranked[k])
            title = ax.set_title(_cut(printable(run.ranked[k].label)), fontweight="bold")
            title.set_gid(f"title_{k + 1}")  # by which the page finds it
            ax.set(xlabel="tasks learned", ylabel="error on task")
        scale = ScalarMappable(Normalize(0, 100), COLOURS)  # the maps' own, without the faint part
        bar = figure.colorbar(scale, ax=axes, shrink=min(0.9, 1.4 / rows), aspect=30, ticks=range(0, 101, 25))
        bar.set_label("wrong predictions in %")
        bar.outline.set_visible(False)
    return figure


def draw_matrix(ax: Any, outcome: Outcome) -> None:
    """One heat map, one row per task and one column per task learned.

    Tasks that are not learned yet are faint, and left out where nothing of them can be predicted.
    """
    values, tasks = outcome.matrix.values[:, 1:], len(outcome.matrix.values)
    learned = np.triu(np.ones(values.shape, dtype=bool))
    colours = matplotlib.colormaps[COLOURS](values)
    colours[..., 3] = np.where(learned, 1.0, np.where(values < 0.9995, FAINT, 0.0))
    ax.imshow(colours, aspect="auto", interpolation="none")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    some = range(0, tasks, 1 if tasks <= NUMBERED else -(-tasks // 8))
    names = _short(outcome.matrix.names) if tasks <= NUMBERED else [str(k + 1) for k in range(tasks)]
    ax.set_xticks(some, [str(k + 1) for k in some])
    ax.set_yticks(some, [names[k] for k in some])
    if tasks <= NUMBERED:
        for i, j in zip(*np.nonzero(learned), strict=True):
            colour = "#ffffff" if values[i, j] < 0.55 else "#000000"
            size = 9 if tasks <= 6 else 7
            ax.text(j, i, f"{100 * values[i, j]:.0f}", ha="center", va="center", fontsize=size, color=colour)


def accuracy_figure(run: Run, places: Sequence[str] = ()) -> Figure:
    """The accuracy on all tasks learned so far, after each task; one line per learner, references dashed.

    Learners take their colours in the order of `places`, so that pictures of several runs can agree.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.4, 3.5), layout="constrained")
        ax = figure.subplots()
        draw_accuracy(ax, run, places)
        label_ends(ax, run)
    return figure


def draw_accuracy(ax: Any, run: Run, places: Sequence[str] = ()) -> None:
    """One line per learner; with several seeds the mean and a band of one standard deviation."""
    steps = np.arange(1, len(run.tasks) + 1)
    looks = learner_looks(run, places)
    for outcome in run.outcomes:
        if outcome.label in looks:
            _draw_line(ax, steps, outcome, **looks[outcome.label], markersize=5, linewidth=2)
    for k, outcome in enumerate(o for o in run.outcomes if o.role == "reference"):
        _draw_line(ax, steps, outcome, color=INK, linestyle=(0, DASHES[k % len(DASHES)]), linewidth=1.5)
    low, high = accuracy_range(run)
    ax.set(xlabel="tasks learned", ylabel="accuracy, %", ylim=(low, high))
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    ax.grid(axis="y", color="#8c8c8c", alpha=0.3, linewidth=0.8)


def learner_looks(run: Run, places: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The colour and the marker that every learner but the references has in all pictures, by its label."""
    learners = [outcome.label for outcome in run.outcomes if outcome.role != "reference"]
    place = {label: k for k, label in enumerate(dict.fromkeys([*places, *learners]))}
    return {
        label: {"color": PALETTE[place[label] % len(PALETTE)], "marker": MARKERS[place[label] % len(MARKERS)]}
        for label in learners
    }


def accuracy_range(run: Run) -> tuple[float, float]:
    """The range of the vertical axis in per cent: that of the lines which end within `NEAR` of the best one."""
    ends = {o.name: o.curve[-1] for o in run.outcomes}
    near = [o.curve for o in run.outcomes if ends[o.name] >= max(ends.values()) - NEAR]
    low, high = 100 * min(map(min, near)), 100 * max(map(max, near))
    margin = max(0.06 * (high - low), 1.0)
    low = 5 * np.floor((low - margin) / 5)
    return (low if low >= 25 else 0.0), high + margin


def label_ends(ax: Any, run: Run) -> None:
    """Write name and value beside the end of each line, apart from each other; a line below the axis has an arrow."""
    low, high = ax.get_ylim()
    ends = sorted(((100 * o.curve[-1], o) for o in run.outcomes), key=lambda end: -end[0])
    lines = {line.get_label(): line for line in ax.lines}
    apart = min(SPACE * (high - low), (high - low) / max(len(ends) - 1, 1))
    heights = _spread([max(value, low) for value, _ in ends], low, high, apart)
    for (value, outcome), height in zip(ends, heights, strict=True):
        name = printable(outcome.label)
        text = f"{_cut(printable(outcome.short_label))} {value:.1f}{' ↓' if value < low else ''}"
        inside = max(value, low)
        link = {"arrowstyle": "-", "color": lines[name].get_color(), "linewidth": 1.0, "shrinkA": 2, "shrinkB": 3}
        link["relpos"] = (0, 0.5)  # from the left of the text: it crosses no other label
        ax.annotate(
            text,
            (len(run.tasks), inside),
            (1.06, height),
            textcoords=("axes fraction", "data"),
            fontsize=9.5,
            fontweight="bold" if outcome is run.best else "normal",
            va="center",
            annotation_clip=False,
            arrowprops=link,
        )


def reliability_figure(run: Run, outcomes: Sequence[Outcome]) -> Figure:
    """How often answers were right, by the probability given to them; the area of a point is its number of rows."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.4, 3.5), layout="constrained")
        ax = figure.subplots()
        ax.plot([0, 100], [0, 100], color="#8c8c8c", linewidth=1, linestyle=(0, (4, 3)))
        looks = learner_looks(run)
        for outcome in outcomes:
            assert outcome.reliability is not None
            look = looks.get(outcome.label, {"color": INK, "marker": "h"})
            rows, confidence, right = outcome.reliability.bins[outcome.reliability.bins[:, 0] > 0].T
            x, y = 100 * confidence / rows, 100 * right / rows
            many = rows >= FEW
            label = _cut(printable(outcome.short_label))
            ax.plot(x[many], y[many], color=look["color"], linewidth=1.5, label=label)
            area = 8 + 150 * rows / rows.sum()
            ax.scatter(x[many], y[many], area[many], alpha=0.8, zorder=3, **look)
            ax.scatter(x[~many], y[~many], area[~many], alpha=0.3, zorder=3, **look)
        ax.set(xlabel="probability given, %", ylabel="answers that were right, %", xlim=(0, 103), ylim=(0, 103))
        ax.grid(color="#8c8c8c", alpha=0.3, linewidth=0.8)
        ax.legend(loc="upper left")
    return figure


def _spread(heights: list[float], low: float, high: float, apart: float) -> list[float]:
    """Heights in falling order, moved as little as needed to be `apart` from each other and not below `low`."""
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - apart) if placed else min(height, high))
    floor = low
    for k in reversed(range(len(placed))):
        placed[k] = max(placed[k], floor)
        floor = placed[k] + apart
    return placed


def _draw_line(ax: Any, steps: Array, outcome: Outcome, **look: Any) -> None:
    mean = 100 * outcome.curves.mean(axis=0)
    if len(outcome.curves) > 1:
        sd = 100 * outcome.curves.std(axis=0, ddof=1)
        ax.fill_between(steps, mean - sd, mean + sd, color=look["color"], alpha=0.2, linewidth=0)
    ax.plot(steps, mean, label=printable(outcome.label), **look)


def map_boxes(figure: Figure) -> list[Box]:
    """Where each axes of a rendered figure stands in its SVG, with its labels and without its title."""
    height, boxes = 72 * figure.get_figheight(), []
    for ax in figure.axes:
        parts = [ax.get_window_extent(), ax.xaxis.get_tightbbox(), ax.yaxis.get_tightbbox()]
        box = Bbox.union([part for part in parts if part is not None])
        left, bottom, right, top = (72 / figure.dpi * side for side in box.extents)
        boxes.append((left - MARGIN, height - top - MARGIN, right - left + 2 * MARGIN, top - bottom + 2 * MARGIN))
    return boxes


def rendered(figure: Figure, kind: Literal["png", "svg"] | str) -> bytes:
    """The figure as the bytes of a file, the same for the same figure."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()


def _short(names: tuple[str, ...]) -> list[str]:
    """The names of the tasks if they fit beside a small picture, otherwise their numbers."""
    return (
        [printable(name) for name in names] if max(map(len, names)) <= 8 else [str(t) for t in range(1, len(names) + 1)]
    )


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"
