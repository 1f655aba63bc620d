"""Where rows stand among what a model has learned, so that a part of a file can be taken out for certain.

A memory is a sum over rows, from which rows that were never in it can often be subtracted without a trace. So rows are
taken out when they are found: as a whole piece of the ledger, or each at its own place in pieces that are at hand. The
places that are out are kept in the notes of the model file, as numbers of rows; no content is.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from remanence.errors import FileError, InputError, MissingDependency
from remanence.store.columns import Columns, Samples, samples
from remanence.store.ledger import Ledger
from remanence.store.work import marks
from remanence.streams.tables import Piece, open_table

Places = dict[str, list[int]]  # mark of a piece in the ledger: rows of it that are out


def places_out(notes: Mapping[str, Any]) -> Places:
    """The rows that were taken out of pieces which are in force."""
    return {mark: list(places) for mark, places in notes.get("out", {}).items()}


def keys(part: Samples) -> Iterator[bytes]:
    """What tells one row from another: its numbers and its answers."""
    X = np.ascontiguousarray(part.X + 0.0)  # (a negative zero is a zero)
    for x, y in zip(X, part.y.tolist(), strict=True):
        yield hashlib.blake2b(x.tobytes() + repr(y).encode(), digest_size=16).digest()


def find_rows(
    piece: Piece, columns: Columns, drop: bool, ledger: Ledger, out: Places, files: Iterable[Path]
) -> tuple[Places, int]:
    """Places of the rows of `piece` within learned pieces of `files`, each used once, and how many were not found.

    Rows that were taken out before under the name of this piece are looked for only in what was learned since.
    """
    wanted: Counter[bytes] = Counter()
    for part in samples(piece, columns, drop):
        wanted.update(keys(part))
    order = {entry.fingerprint: i for i, entry in enumerate(ledger)}
    held = {mark for mark in ledger.in_force() if order[mark] > last_out(ledger, piece.fingerprint())}
    found: Places = {}
    for source in _learned_pieces(files):
        for mark in takewhile(ledger.in_force().__contains__, marks(source.fingerprint())):
            if mark not in held or mark in found or not wanted.total():
                continue
            gone = set(out.get(mark, ()))
            for part in samples(source, columns, drop=True):
                for key, place in zip(keys(part), part.places.tolist(), strict=True):
                    if wanted[key] > 0 and place not in gone:
                        wanted[key] -= 1
                        found.setdefault(mark, []).append(place)
    return found, wanted.total()


def last_out(ledger: Ledger, fingerprint: str) -> int:
    """Where in the ledger these rows were taken out last; -1 if they never were."""
    mine = set(takewhile(lambda mark: ledger.last_action(mark) is not None, marks(fingerprint)))
    return max((i for i, e in enumerate(ledger) if e.fingerprint in mine and e.action == "unlearned"), default=-1)


def _learned_pieces(files: Iterable[Path]) -> Iterator[Piece]:
    for path in files:
        try:
            yield from open_table(path).pieces()
        except (InputError, FileError, MissingDependency):
            continue  # what cannot be read is no proof


def files_at_hand(ledger: Ledger, folders: Iterable[Path]) -> list[Path]:
    """Files in these folders that are called as something the model has learned."""
    names = dict.fromkeys(entry.name.partition("[")[0] for entry in ledger.in_force().values())
    found = (folder / name for folder in dict.fromkeys(folders) for name in names if name)
    return [path for path in found if path.is_file()]
