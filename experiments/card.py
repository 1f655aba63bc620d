"""A card describes one experiment: protocol, data, settings, published figures and results. Its command writes it.

`python -m experiments.<name>` writes experiments/cards/<name>.md and .json; with `--quick` a small version goes to
runs/cards, so that stored figures always come from the full experiment. The exit code is 1 if a claim fails.
`python -m experiments.card` regenerates the Markdown and figures of all stored cards from their JSON.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from remanence.errors import FileError, MissingDependency
from remanence.files import json_value


@dataclass(frozen=True)
class Table:
    """A table of results, one row per setting."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """A sentence with the figure measured and the figure allowed."""

    text: str
    measured: float
    allowed: float

    @property
    def holds(self) -> bool:
        return bool(self.measured <= self.allowed)  # false for NaN


@dataclass(frozen=True)
class Curves:
    """Accuracy on the tasks learned so far, after each task; one line per learner, and the level of joint training."""

    alternative: str  # what the picture shows, in words
    lines: dict[str, list[float]]
    ceiling: dict[str, float]

    def draw(self, path: Path) -> None:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        from remanence.report.pictures import INK, MARKERS, PALETTE, STYLE

        with matplotlib.rc_context(STYLE):
            figure = Figure(figsize=(8.2, 3.6), layout="constrained")
            ax = figure.subplots()
            for (name, line), colour, marker in zip(self.lines.items(), PALETTE, MARKERS, strict=False):
                steps, percents = range(1, len(line) + 1), [100 * share for share in line]
                ax.plot(steps, percents, color=colour, marker=marker, markersize=5, linewidth=2, label=name)
            for name, share in self.ceiling.items():
                ax.axhline(100 * share, color=INK, linestyle=(0, (4, 3)), linewidth=1.5, label=name)
            ax.set(xlabel="tasks learned", ylabel="accuracy on them, %")
            ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
            ax.grid(axis="y", color="#8c8c8c", alpha=0.3, linewidth=0.8)
            figure.legend(loc="outside right center")
            figure.savefig(path, metadata={"Date": None})


@dataclass(frozen=True)
class Scatter:
    """One point per learner in each panel, on a logarithmic axis; the marked ones stand out."""

    alternative: str  # what the picture shows, in words
    across: str
    upwards: str
    panels: dict[str, dict[str, tuple[float, float]]]  # title: name: (right, up)
    marked: tuple[str, ...] = ()

    def draw(self, path: Path) -> None:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullFormatter

        from remanence.report.pictures import INK, MARKERS, PALETTE, STYLE

        names = list(dict.fromkeys(name for points in self.panels.values() for name in points))
        with matplotlib.rc_context(STYLE):
            figure = Figure(figsize=(9.4, 3.9), layout="constrained")
            axes = figure.subplots(1, len(self.panels), squeeze=False)[0]
            for ax, (title, points) in zip(axes, self.panels.items(), strict=True):
                for k, name in enumerate(name for name in names if name in points):
                    edge = {"edgecolors": INK, "linewidths": 1.6} if name in self.marked else {}
                    look = {"color": PALETTE[k % len(PALETTE)], "marker": MARKERS[k % len(MARKERS)], "s": 70}
                    ax.scatter(*points[name], label=name if ax is axes[0] else None, **look, **edge)
                ax.set_title(title)
                ax.set(xscale="log", xlabel=self.across, ylabel=self.upwards)
                ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")  # (no formulas: they are off in STYLE)
                ax.xaxis.set_minor_formatter(NullFormatter())
                ax.grid(color="#8c8c8c", alpha=0.3, linewidth=0.8)
            figure.legend(loc="outside right center")
            figure.savefig(path, metadata={"Date": None})


@dataclass(frozen=True)
class Card:
    """One experiment and its outcome."""

    name: str
    title: str
    what: str
    data: str
    settings: dict[str, Any]
    reference: str  # the published or joint figure, and where it comes from
    tables: list[Table]
    claims: list[Claim]
    curves: Curves | None = None
    scatter: Scatter | None = None

    @property
    def picture(self) -> Curves | Scatter | None:
        return self.curves or self.scatter

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)

    def markdown(self, command: str, seconds: float, made_on: str) -> str:
        lines = [f"# {self.title}", "", self.what, ""]
        lines += [f"![{self.picture.alternative}]({self.name}.svg)", ""] if self.picture else []
        lines += [f"- **Data**: {self.data}"]
        lines += [f"- **{name}**: {value}" for name, value in self.settings.items()]
        lines += [f"- **Reference**: {self.reference}", f"- **Command**: `{command}` ({seconds:.0f} s, {made_on})"]
        for table in self.tables:
            lines += ["", f"## {table.title}", ""]
            lines += [_row(table.columns), _row(["---"] * len(table.columns))]
            lines += [_row([_cell(value) for value in row]) for row in table.rows]
        if self.claims:
            lines += ["", "## Claims", "", _row(["claim", "measured", "allowed", ""]), _row(["---"] * 4)]
            lines += [
                _row([c.text, f"{c.measured:.2g}", f"{c.allowed:.2g}", "holds" if c.holds else "**fails**"])
                for c in self.claims
            ]
        return "\n".join([*lines, "", "*Written by the command above; do not edit.*", ""])

    def write(self, folder: Path, command: str, seconds: float) -> Path:
        """Write the card to a folder as Markdown and JSON, with its figure; return the path of the Markdown."""
        folder.mkdir(parents=True, exist_ok=True)
        made_on = machine()
        whole = asdict(self) | {"command": command, "seconds": round(seconds, 1), "machine": made_on}
        for claim, plain in zip(self.claims, whole["claims"], strict=True):
            plain["holds"] = claim.holds
        text = json.dumps(json_value(whole), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / f"{self.name}.json").write_text(text + "\n")
        return self.show(folder, command, seconds, made_on)

    def show(self, folder: Path, command: str, seconds: float, made_on: str) -> Path:
        """Write the Markdown and the figure."""
        path = folder / f"{self.name}.md"
        path.write_text(self.markdown(command, seconds, made_on))
        if self.picture:
            self.picture.draw(path.with_suffix(".svg"))
        return path


def redraw(path: Path, folder: Path) -> Path:
    """Regenerate a stored card from its JSON; return the path of its Markdown."""
    kept = json.loads(path.read_text())
    command, seconds, made_on = (kept.pop(name) for name in ("command", "seconds", "machine"))
    tables = [Table(table["title"], tuple(table["columns"]), table["rows"]) for table in kept.pop("tables")]
    claims = [Claim(claim["text"], float(claim["measured"]), float(claim["allowed"])) for claim in kept.pop("claims")]
    curves, scatter = kept.pop("curves", None), kept.pop("scatter", None)
    pictures = {"curves": Curves(**curves) if curves else None, "scatter": Scatter(**scatter) if scatter else None}
    card = Card(**kept, tables=tables, claims=claims, **pictures)
    return card.show(folder, command, seconds, made_on)


def machine() -> str:
    """The machine and package versions of the results."""
    from threadpoolctl import threadpool_info

    threads = max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
    used = ["remanence", "numpy", "scipy", "scikit-learn", *(["torch"] if "torch" in sys.modules else [])]
    packages = ", ".join(f"{name} {version(name)}" for name in used)
    cores = f"{os.cpu_count()} cores {platform.machine()}, {threads} BLAS threads"
    return f"{cores}, Python {platform.python_version()}, {packages}"


def run(module: str, make: Callable[[bool, Path], Card], arguments: Sequence[str] | None = None) -> int:
    """The command of an experiment: `make(quick, data_folder)` returns its card, which is written and shown."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{module}", description=(make.__doc__ or "").strip())
    parser.add_argument("--quick", action="store_true", help="small version, a minute or two; written to runs/cards")
    parser.add_argument("--data", default="data", help="where `make data` put the data (default: data)")
    parser.add_argument("--out", default=None, help="where to write the card (default: experiments/cards)")
    options: Any = parser.parse_args(arguments)
    start = perf_counter()
    try:
        card = make(options.quick, Path(options.data))
    except (FileError, MissingDependency) as problem:
        print(f"{module}: {problem}", file=sys.stderr)
        return 2
    seconds = perf_counter() - start
    command = f"python -m experiments.{module}{' --quick' if options.quick else ''}"
    folder = Path(options.out or ("runs/cards" if options.quick else "experiments/cards"))
    path = card.write(folder, command, seconds)
    print(path.read_text())
    print(f"written to {path}", file=sys.stderr)
    return 0 if card.holds else 1


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _cell(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, float) else str(value)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for kept in sorted(Path("experiments/cards").glob("*.json")):
        redraw(kept, kept.parent)
