"""`remanence inspect`: show the contents of a model file and check it."""

import json
from typing import TYPE_CHECKING, Any

import typer

from remanence.cli.common.options import AsJson, Model
from remanence.files import json_value
from remanence.terminal_text import printable

if TYPE_CHECKING:
    from remanence.store.jobs.inspect import Inspection

LINES = 12  # of a list shown


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show what a model file has learned and check it; exit with 1 if a check fails."""
    from remanence.store.jobs.inspect import inspect_file

    found = inspect_file(model)
    if as_json:
        typer.echo(json.dumps(json_value(found.to_dict()), ensure_ascii=False, allow_nan=False))
    else:
        _show(found)
    if not found.holds:
        raise typer.Exit(1)


def _show(found: "Inspection") -> None:
    from rich.console import Console
    from rich.text import Text

    shown = found.to_dict()
    console = Console(highlight=False)
    settings = ", ".join(f"{name}={value}" for name, value in shown["settings"].items())
    lines = {
        "kind": shown["kind"],
        "method": f"{shown['method']}({settings})" if shown["method"] else None,
        "rows": f"{shown['rows']:,}",
        "classes": _listed([f"{label} ({n:,})" for label, n in found.counts.items()]),
        "targets": _listed(shown["targets"]),
        "features": shown["features"],
        "columns": _listed(_with_kinds(shown)),
        "missing": "0, and a column of their own" if shown["missing"] == "indicator" else None,
        "label": _label(shown),
        "ignored": _listed(shown["ignored"]),
        "encoder": shown["encoder"],
        "csv": ", ".join(f"{name} {value!r}" for name, value in shown["csv"].items()),
        "ledger of": "every row, 16 bytes each" if found.every_row else None,
        "undo": None if found.pieces is None else f"pieces, {found.pieces} separate learners",
        "readout": found.readout,
        "scale": None if found.scale is None else f"{found.scale}, of columns",
        "weights": None if found.class_weight is None else f"{found.class_weight} classes",
        "ridge": None if found.ridge is None else f"{found.ridge:g} in force",
        "answers": _answers(found.calibration),
        "condition": None if found.condition is None else f"{found.condition:.1e}",
        "size": f"{shown['bytes']:,} bytes, {shown['precision'] or 'no'} numbers, written by {shown['library']}",
    }
    for name, value in lines.items():
        if value not in (None, ""):
            console.print(Text(f"{name:<10} ", "bold").append(printable(value), "not bold"), soft_wrap=True)
    if shown["ledger"]:
        console.print(Text(f"\nledger ({_counted(len(shown['ledger']), 'entry', 'entries')})", "bold"))
        for entry in _grouped(shown["ledger"])[-LINES:]:
            said = f"{entry['when']}  {entry['action']:<9}  {entry['rows']:>10,} rows  {entry['name']}"
            console.print(printable(said), soft_wrap=True, markup=False)
    console.print()
    for certificate in found.certificates:
        sign, style = {"holds": ("✓", "green"), "fails": ("✗", "bold red")}.get(certificate.status, ("–", "dim"))
        console.print(Text(f"{sign} ", style).append(printable(certificate), "default"), soft_wrap=True)


def _label(shown: dict[str, Any]) -> str | None:
    between = shown["label separator"]
    return shown["label"] if between is None else f"{shown['label']}, any number per row, with {between!r} between them"


def _answers(found: dict[str, float] | None) -> str | None:
    if found is None:
        return None
    rows = _counted(round(found["rows"]), "row")
    figures = f"{found['accuracy']:.1%} right, log-loss {found['log_loss']:.3f}, calibration error "
    return f"{figures}{found['calibration_error']:.3f}, to {rows} before they were learned"


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _with_kinds(shown: dict[str, Any]) -> list[str]:
    """The columns, each with its kind unless all are numbers."""
    kinds = shown["kinds"]
    if all(kind == "number" for kind in kinds.values()):
        return list(shown["columns"])
    return [f"{name} ({kinds.get(name, 'number')})" for name in shown["columns"]]


def _grouped(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pieces of one file that were learned or unlearned together as one line."""
    lines: list[dict[str, Any]] = []
    for entry in entries:
        if lines and all(lines[-1][key] == entry[key] for key in ("name", "action")):
            lines[-1] = {**entry, "rows": lines[-1]["rows"] + entry["rows"]}
        else:
            lines.append(entry)
    return lines


def _listed(names: list[Any]) -> str:
    more = f" … and {len(names) - LINES} more" if len(names) > LINES else ""
    return ", ".join(map(str, names[:LINES])) + more
