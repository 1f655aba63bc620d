"""The learned files in which rows to unlearn are searched.

A memory is a sum over rows, from which rows that were never learned can often be subtracted without an error. So rows
are removed only where they are found in learned files that can be read. Which rows are in the model is in holdings.py.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError, MissingDependency
from remanence.hashing import ROW_KEY, hash_row
from remanence.store.jobs.columns import Columns, Samples, samples
from remanence.store.jobs.holdings import Available, Blocks
from remanence.store.ledger import Ledger
from remanence.tables import Piece, open_table

ROW_GROUP = re.compile(r"\[\d+\]$")  # follows the name of a file: which of its pieces


def keys(part: Samples) -> Array:
    """A hash of every row, (n,): of its numbers and its outputs."""
    X = np.ascontiguousarray(part.X + 0.0)  # (a negative zero is a zero)
    y = (part.y + 0.0 if part.y.dtype.kind == "f" else part.y).tolist()
    hashed = (hash_row(x.tobytes(), output) for x, output in zip(X, y, strict=True))
    return np.frombuffer(b"".join(hashed), dtype=f"S{ROW_KEY}")


def available(piece: Piece, columns: Columns, drop: bool) -> Available:
    """A piece as holdings.py reads it."""
    return Available(piece.fingerprint(), partial(_blocks, piece, columns, drop), piece.name)


def _blocks(piece: Piece, columns: Columns, drop: bool) -> Blocks:
    for part in samples(piece, columns, drop):
        yield part.places, keys(part)


def pieces_of(files: Iterable[Path]) -> Iterator[Piece]:
    """The pieces of those files that can be read."""
    for path in dict.fromkeys(files):
        try:
            yield from open_table(path).pieces()
        except (InputError, FileError, MissingDependency):
            continue  # (a file that cannot be read proves nothing)


def learned_files(ledger: Ledger, folders: Iterable[Path]) -> list[Path]:
    """Files in these folders that have the name of an entry in the ledger."""
    names = dict.fromkeys(name for entry in ledger for name in (entry.name, ROW_GROUP.sub("", entry.name)))
    found = (folder / name for folder in dict.fromkeys(folders) for name in names if name)
    return [path for path in found if path.is_file()]
