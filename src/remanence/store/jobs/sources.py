"""The learned files in which rows to unlearn are searched.

A memory is a sum over rows, from which rows that were never learned can often be subtracted without an error. So rows
are removed only where they are found in learned files that can be read. Which rows are in the model is in holdings.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError, MissingDependency
from remanence.hashing import ROW_KEY, hash_keys, key_words
from remanence.store.content.cutting import KnownPieces, Span, known_spans
from remanence.store.content.earlier import listed_pieces
from remanence.store.jobs.columns import Columns, Samples, samples
from remanence.store.jobs.holdings import Available, Holdings
from remanence.store.ledger import Ledger
from remanence.tables import Dialect, Piece, Table, open_table


@dataclass(frozen=True)
class FoundPiece:
    """A piece that the ledger has or had, found in a file: a span of complete rows, or a part of earlier ledgers."""

    available: Available
    table: Table
    columns: Columns
    span: Span | None = None
    part: Piece | None = None

    def samples(self) -> Iterator[Samples]:
        """Its rows, block by block; their places are those within the piece."""
        if self.part is not None:
            yield from samples(self.part, self.columns, drop=True)
            return
        assert self.span is not None
        done, first, end = 0, self.span.first, self.span.first + self.span.rows
        for part in table_rows(self.table, self.columns):
            start, stop = max(first - done, 0), min(end - done, len(part.X))
            if start < stop:
                places = np.arange(start, stop) + done - first
                yield part.only(slice(start, stop))._replace(places=places)
            done += len(part.X)


def table_rows(table: Table, columns: Columns) -> Iterator[Samples]:
    """The complete rows of a table, in its order."""
    for piece in table.pieces():
        yield from samples(piece, columns, drop=True)


def row_keys_of(table: Table, columns: Columns) -> Array:
    """The keys of the complete rows of a table, (n,); an InputError if it has other columns."""
    columns.check(table, predicting=True)
    table.require(columns.outputs)
    keys = [part.keys() for part in table_rows(table, columns)]
    return np.concatenate([np.empty(0, f"S{ROW_KEY}"), *keys])


def as_available(keys: Array, name: str) -> Available:
    """Rows as one piece."""
    blocks = [(np.arange(len(keys)), keys)]
    begins = f"{int(key_words(keys[:1])[0]):016x}" if len(keys) else None
    return Available(hash_keys(keys), lambda: blocks, name, begins, len(keys))


def known_pieces(table: Table, keys: Array, columns: Columns, held: Holdings, known: KnownPieces) -> list[FoundPiece]:
    """Every piece in a table that the ledger has or had."""
    found = [
        FoundPiece(as_available(keys[span.first : span.first + span.rows], table.path.name), table, columns, span)
        for span in known_spans(keys, known)
    ]
    for piece in listed_pieces(table, held, every=True):
        blocks = [(part.places, part.keys()) for part in samples(piece, columns, drop=True)]
        earlier = Available(piece.fingerprint(), partial(iter, blocks), piece.name)
        found.append(FoundPiece(earlier, table, columns, part=piece))
    return found


def pieces_of(
    files: Iterable[Path],
    columns: Columns,
    held: Holdings,
    known: KnownPieces,
    keys: dict[Path, Array],
    dialect: Dialect | None = None,
) -> Iterator[FoundPiece]:
    """The pieces that the ledger has or had, in those files that can be read.

    `keys` are those of the rows of files that were read before; those of others are added.
    """
    for path in dict.fromkeys(files):
        try:
            table = open_table(path, dialect)
            if path not in keys:
                keys[path] = row_keys_of(table, columns)
            yield from known_pieces(table, keys[path], columns, held, known)
        except (InputError, FileError, MissingDependency):
            continue  # (a file that cannot be read proves nothing)


def learned_files(ledger: Ledger, folders: Iterable[Path]) -> list[Path]:
    """Files in these folders that have the name of an entry in the ledger."""
    names = dict.fromkeys(name for entry in ledger for name in (entry.name, entry.name.partition("[")[0]))
    found = (folder / name for folder in dict.fromkeys(folders) for name in names if name)
    return [path for path in found if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
