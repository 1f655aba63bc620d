"""File formats of tables, the endings of file names that stand for them, and compressed text."""

from pathlib import Path, PurePath

ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".npz": "npz",
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "ipc",
    ".arrow": "ipc",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}  # of text: CSV and JSON lines
TEXT = ("csv", "jsonl")
MODULES = {"npy": "npz"}  # format: module that reads it, where its name differs
NAMES = {"feather": "ipc", "arrow": "ipc", "json": "jsonl", "tsv": "csv"}  # other names of formats
SIGNATURES = {  # first bytes of a file; text has none
    b"PAR1": "parquet",
    b"PK\x03\x04": "npz",
    b"\x93NUM": "npy",
    b"ARRO": "ipc",
    b"\xff\xff\xff\xff": "ipc",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
}
DESCRIPTIONS = {
    "csv": "text",
    "jsonl": "text",
    "npz": "an NPZ (zip) file",
    "npy": "an NPY file",
    "parquet": "a Parquet file",
    "ipc": "an Arrow file",
    "gzip": "a gzip file",
    "zstd": "a zstd file",
    "bz2": "a bz2 file",
    None: "something else",
}


def format_of(path: PurePath | str) -> str | None:
    """The format that the ending of a file name stands for; None if it is not that of a table."""
    name = PurePath(path)
    if name.suffix.lower() in COMPRESSIONS:
        found = ENDINGS.get(PurePath(name.stem).suffix.lower())
        return found if found in TEXT else None
    return ENDINGS.get(name.suffix.lower())


def compression_of(path: Path | str) -> str | None:
    """How a text file is compressed, by the ending of its name."""
    return COMPRESSIONS.get(PurePath(path).suffix.lower())


def found_in(start: bytes, expected: str) -> str | None:
    """The format that a file has by its first bytes; what begins like none of them may be text."""
    longest_first = sorted(SIGNATURES, key=len, reverse=True)
    known = next((SIGNATURES[sign] for sign in longest_first if start.startswith(sign)), None)
    return expected if known is None and expected in TEXT else known


def listed_endings(written: bool = False) -> str:
    """All endings, for messages; those of tables that can be `written` only."""
    return ", ".join(ending for ending, found in ENDINGS.items() if not (written and found == "npy"))


def delimiter_of(path: Path) -> str:
    """The delimiter to write a text table with."""
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]] else ","
