"""Where rows stand among what a model has learned, so that a part of a file can be taken out for certain.

A memory is a sum over rows, from which rows that were never in it can often be subtracted without a trace. So rows are
taken out where they are found in pieces that are at hand. Which rows are in and out is worked out in holdings.py.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError, MissingDependency
from remanence.store.jobs.columns import Columns, Samples, samples
from remanence.store.jobs.holdings import Available, Blocks
from remanence.store.ledger import Ledger
from remanence.tables import Piece, open_table

ROW_GROUP = re.compile(r"\[\d+\]$")  # behind the name of a file, says which of its pieces
KEY = 16  # bytes that tell one row from another


def keys(part: Samples) -> Array:
    """What tells one row from another, (n,): a hash of its numbers and its answers."""
    X = np.ascontiguousarray(part.X + 0.0)  # (a negative zero is a zero)
    y = (part.y + 0.0 if part.y.dtype.kind == "f" else part.y).tolist()
    hashed = (
        hashlib.blake2b(x.tobytes() + repr(answer).encode(), digest_size=KEY).digest()
        for x, answer in zip(X, y, strict=True)
    )
    return np.frombuffer(b"".join(hashed), dtype=f"S{KEY}")


def available(piece: Piece, columns: Columns, drop: bool) -> Available:
    """A piece as holdings look into it."""
    return Available(piece.fingerprint(), partial(_blocks, piece, columns, drop), piece.name)


def _blocks(piece: Piece, columns: Columns, drop: bool) -> Blocks:
    for part in samples(piece, columns, drop):
        yield part.places, keys(part)


def pieces_of(files: Iterable[Path]) -> Iterator[Piece]:
    """The pieces of all these files that can be read."""
    for path in dict.fromkeys(files):
        try:
            yield from open_table(path).pieces()
        except (InputError, FileError, MissingDependency):
            continue  # what cannot be read is no proof


def files_at_hand(ledger: Ledger, folders: Iterable[Path]) -> list[Path]:
    """Files in these folders that are called as something the ledger has."""
    names = dict.fromkeys(name for entry in ledger for name in (entry.name, ROW_GROUP.sub("", entry.name)))
    found = (folder / name for folder in dict.fromkeys(folders) for name in names if name)
    return [path for path in found if path.is_file()]
