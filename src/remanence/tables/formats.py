"""File formats of tables and the endings of file names that stand for them."""

from pathlib import Path

ENDINGS = {".csv": "csv", ".tsv": "csv", ".npz": "npz", ".parquet": "parquet", ".pq": "parquet"}
SIGNATURES = {b"PAR1": "parquet", b"PK\x03\x04": "npz"}  # first bytes of a file; a CSV file has none
DESCRIPTIONS = {"csv": "text", "npz": "an NPZ (zip) file", "parquet": "a Parquet file", None: "something else"}


def format_of(path: Path | str) -> str | None:
    """The format that the ending of a file name stands for; None if it is not that of a table."""
    return ENDINGS.get(Path(path).suffix.lower())


def listed_endings() -> str:
    """All endings, for messages."""
    return ", ".join(ENDINGS)


def delimiter_of(path: Path) -> str:
    """The delimiter to write a text table with."""
    return "\t" if path.suffix.lower() == ".tsv" else ","
