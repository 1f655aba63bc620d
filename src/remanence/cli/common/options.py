"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remanence.errors import InputError

if TYPE_CHECKING:
    from remanence.tables.dialect import Dialect

Model = Annotated[Path, typer.Argument(help="Model file, usually named *.safetensors.")]
Data = Annotated[
    list[str],
    typer.Argument(
        help="Tables: CSV (also .gz, .zst, .bz2), JSON lines, Parquet, Arrow or NPZ files, patterns like 'data/*.csv', "
        "folders, addresses like s3://…, or - for standard input."
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of tables whose names do not say it: csv, jsonl, parquet, …")
]
CsvOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="How CSV files are written: delimiter or decimal, guessed if not given, quote or encoding; repeatable.",
    ),
]
Ignore = Annotated[list[str] | None, typer.Option(help="Column to ignore; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
DropMissing = Annotated[bool, typer.Option("--drop-nan", help="Drop rows with missing entries, and count them.")]


def read_pairs(texts: list[str] | None, sign: str, example: str) -> dict[str, str]:
    """Options given as NAME=VALUE or NAME:KIND."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, there, value = text.rpartition(sign) if sign == ":" else text.partition(sign)
        if not there or not name or not value:
            raise InputError(f"expected an option like {example}, got {text!r:.60}")
        if name in found:
            raise InputError(f"expected one value for {name!r:.40}, got {found[name]!r:.40} and {value!r:.40}")
        found[name] = value
    return found


def read_kinds(texts: list[str] | None) -> dict[str, str]:
    """Kinds of columns, given as NAME:KIND or NAME=KIND."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, sign, kind = text.rpartition(":" if text.rpartition(":")[2].isalpha() and ":" in text else "=")
        if not name or not sign or not kind:
            raise InputError(f"expected an option like price:number, got {text!r:.60}")
        found[name] = kind
    return found


def read_dialect(texts: list[str] | None) -> "Dialect | None":
    """The dialect of CSV files that options like delimiter=; stand for."""
    from remanence.tables.dialect import Dialect

    return Dialect.from_options(read_pairs(texts, "=", "delimiter=;")) if texts else None


def read_format(name: str | None) -> str | None:
    """The format of this name; None if there is none."""
    from remanence.tables.paths import format_named

    return None if name is None else format_named(name)


def read_settings(texts: list[str] | None, **named: Any) -> dict[str, Any]:
    """Settings given as NAME=VALUE, and those with their own options."""
    settings = {name: value for name, value in named.items() if value is not None}
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InputError(f"expected a setting as NAME=VALUE, like step=0.1, got {text!r}")
        if name in settings:
            raise InputError(f"expected every setting once, got {name} twice")
        settings[name] = value
    return settings
