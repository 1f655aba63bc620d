"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from remanence.errors import InputError

Model = Annotated[Path, typer.Argument(help="Model file, usually named *.safetensors.")]
Data = Annotated[list[str], typer.Argument(help="CSV, NPZ or Parquet files, or patterns like 'data/*.csv'.")]
Ignore = Annotated[list[str] | None, typer.Option(help="Column to ignore; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
DropMissing = Annotated[bool, typer.Option("--drop-nan", help="Drop rows with missing entries, and count them.")]


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
