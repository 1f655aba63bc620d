"""`remanence methods`: list the methods with their cost and memory."""

import json
from typing import Annotated

import typer

from remanence.cli.run_options.learners import LEARNERS, registered

NAME, NARROW = 20, 100  # characters of a name in one line, and of a terminal where longer ones are broken


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, and nothing else.")] = False,
) -> None:
    """List the methods and baselines with their cost and memory per sample."""
    rows = table()
    if as_json:
        typer.echo(json.dumps({"methods": rows}, ensure_ascii=False))
        return

    from rich.console import Console
    from rich.table import Table

    console, shown = Console(), Table(header_style="bold")
    for heading, width in (("name", None), ("what it is", None), ("cost per sample", 16), ("memory", 12)):
        shown.add_column(heading, max_width=width, overflow="fold")
    for k, row in enumerate(rows):
        last = k + 1 < len(rows) and bool(row["method"]) != bool(rows[k + 1]["method"])
        name = row["method"] or row["run"]
        name += "" if row["run"] or row["learn"] else " *"
        shown.add_row(
            name.replace(".", ".\n") if len(name) > NAME and console.width < NARROW else name,
            row["summary"],
            row["cost"],
            row["memory"],
            end_section=last,
        )
    console.print(shown)
    console.print("d features, c outputs, n rows, b buffer, r or k directions, p parameters.", style="dim")
    run_only = [row["method"] for row in rows if row["method"] and row["run"] and not row["learn"]]
    but = f" (not {' and '.join(run_only)})" if run_only else ""
    said = f"Methods with run --methods and learn --method{but}, baselines and references with run --methods"
    in_python = any(not row["run"] and not row["learn"] for row in rows)
    console.print(f"{said}{', * in Python only' if in_python else ''}.", style="dim")


def table() -> list[dict[str, str]]:
    """Every method of the library, then the baselines; `run` and `learn` are the names these commands know it by."""
    from remanence.methods import list_methods

    names = {choice.method: name for name, choice in (LEARNERS | registered()).items() if choice.method}
    rows = [
        {
            "method": method,
            "run": names.get(method, ""),
            "learn": method.lower() if e.method.linear and not e.method.task_per_update else "",
            "summary": e.summary,
            "cost": e.cost,
            "memory": e.memory,
        }
        for method, e in list_methods().items()
    ]
    baselines = [
        {"method": "", "run": name, "learn": "", "summary": c.summary, "cost": c.cost, "memory": c.memory}
        for name, c in LEARNERS.items()
        if not c.method
    ]
    return rows + baselines
