"""Rows as they are kept and shown: a JSON file a group, one Markdown table of all, one table in the terminal."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

LIBRARIES = (
    "remanence",
    "numpy",
    "scipy",
    "scikit-learn",
    "padasip",
    "river",
    "statsmodels",
    "torch",
)
COMMAND = "make bench"


def machine() -> dict[str, Any]:
    """What a reader needs to know of the machine, and nothing that would name it."""
    from benchmarks.timing import threads

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
        "threads": threads(),
        "code": _code(),
    }


def _code() -> str:
    """The commit that was measured, and whether the package was changed since."""
    folder = Path(__file__).parent.parent
    try:
        commit, changes = (
            subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", "src"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes in src" if changes else commit


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def write(folder: Path, group: str, rows: Iterable[Row], facts: dict[str, Any]) -> Path:
    """Put the rows of a group into its file; rows of other names that are there already stay."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{group}.json"
    kept = {row["name"]: row for row in _read(path)}
    today = date.today().isoformat()
    kept |= {row.name: row.as_dict() | {"date": today, "machine": facts} for row in rows}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"group": group, "rows": list(kept.values())}, indent=2, ensure_ascii=False) + "\n")
    partial.replace(path)
    return path


def _read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["rows"] if path.exists() else []


def markdown(folder: Path, groups: Iterable[str]) -> str:
    """One table of every row kept in the folder."""
    rows = [row for group in groups for row in _read(folder / f"{group}.json")]
    goals = [row["reached"] for row in rows if row["goal"]]
    lines = [
        "# Benchmarks",
        "",
        f"Made by `{COMMAND}`; a few rows again: `python -m benchmarks --only NAME`. The goal is met in "
        f"{sum(goals)} of {len(goals)} rows that have one.",
        "",
        "Sides take turns (A, B, A, B, …) in one process on one BLAS thread; each counts by the processor time of its",
        "best round, for each row of data. Only ratios are given: seconds are in the JSON files, and depend on the",
        "machine.",
        "*Times the limit* is our time as a multiple of what the machine needs at the very least, as named. Before a",
        "ratio counts, both sides are held to the same answers where they are defined to give the same; *apart* is the",
        "largest difference relative to the largest entry. *Rounds* is the range of the ratio over single rounds: it",
        "tells how noisy the machine was.",
        "",
        "| benchmark | ours | beside | ratio | rounds | goal | met | times the limit | accuracy and remarks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    for facts in {json.dumps(row["machine"], sort_keys=True): row["machine"] for row in rows}.values():
        libraries = ", ".join(f"{name} {number}" for name, number in facts["libraries"].items())
        lines += [
            "",
            f"{facts['processor']}, {facts['cores']} cores, {facts['threads']} thread used; {facts['system']},",
        ]
        lines += [f"Python {facts['python']}, {libraries}; code {facts['code']}."]
    dates = sorted({row["date"] for row in rows})
    return "\n".join([*lines, "", f"Measured {' to '.join(dict.fromkeys([*dates[:1], *dates[-1:]]))}.", ""])


def _cells(row: dict[str, Any]) -> list[str]:
    sign = "≥" if row["sense"] == "at least" else "≤"
    words = "× faster" if row["sense"] == "at least" else "× theirs"
    limit = "–" if row["limit"] is None else f"{row['above_limit']:.1f} ({row['limit']['what']})"
    remarks = [f"{what} {value:.1e}" for what, value in row["accuracy"].items()] + [row["note"]] * bool(row["note"])
    return [
        row["name"],
        row["what"],
        row["peer"],
        f"{row['ratio']:.3g}{words}",
        "–" if row["spread"] is None else f"{row['spread'][0]:.3g} to {row['spread'][1]:.3g}",
        "–" if row["goal"] is None else f"{sign} {row['goal']['bound']:g}",
        {True: "yes", False: "**no**", None: "–"}[row["reached"]],
        limit,
        "; ".join(remarks) or "–",
    ]


def table(rows: Iterable[Row]) -> Any:
    """The rows for the terminal."""
    from rich.table import Table

    shown = Table(title="Ours beside others: ratios of best rounds, one thread", expand=False)
    for column in ("benchmark", "beside", "ratio", "rounds", "goal", "met", "times the limit"):
        shown.add_column(
            column, justify="right" if column in ("ratio", "goal") else "left", no_wrap=column in ("benchmark", "ratio")
        )
    for row in rows:
        name, _, peer, ratio, rounds, goal, met, limit, _ = _cells(row.as_dict())
        style = {True: "green", False: "bold red", None: ""}[row.reached]
        shown.add_row(name, peer, ratio, rounds, goal, f"[{style}]{met.strip('*')}[/]" if style else met, limit)
    return shown
