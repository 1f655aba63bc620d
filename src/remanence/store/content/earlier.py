"""Ledgers of earlier versions, which know files by a hash of their bytes, and row groups of Parquet files by theirs.

Such entries stay in force: a file that is listed is skipped, and one that starts with a listed file is an error, since
the ledger does not say which of its rows are known.
"""

from collections.abc import Iterable, Iterator

from remanence.errors import InputError
from remanence.store.jobs.holdings import Holdings
from remanence.store.ledger import Entry
from remanence.tables import Piece, Table
from remanence.tables.formats import format_of
from remanence.tables.hashing import hash_of_bytes


def listed_pieces(table: Table, held: Holdings, every: bool = False) -> Iterator[Piece]:
    """The parts of a file that the ledger has in force as files; with `every`, also those it had."""
    by_file = held.ledger.by_file()
    if every and any(entry.begins is None for entry in held.ledger):
        yield from (piece for piece in table.pieces() if held.ledger.last_action(piece.fingerprint()) is not None)
    elif by_file:
        for piece in table.pieces():
            if _may_be(piece, by_file.values()) and piece.fingerprint() in by_file:
                yield piece


def _may_be(piece: Piece, entries: Iterable[Entry]) -> bool:
    """Whether a piece can be one of these files, without looking into it: the length of a text file tells."""
    if piece.size is None:
        return True
    return any(e.size == piece.size or (e.size is None and format_of(e.name) == "csv") for e in entries)


def check_not_grown(table: Table, held: Holdings) -> None:
    """Raise an InputError if a text file starts with one that is listed: its rows would count twice."""
    (piece, *more) = table.pieces()
    if more or piece.size is None:
        return
    for mark, entry in held.ledger.by_file().items():
        shorter = entry.size is not None and 0 < entry.size < piece.size
        if shorter and hash_of_bytes(piece.path, [(0, entry.size or 0)]) == mark:
            raise InputError(
                f"expected rows that were not learned yet, but {piece.name} has grown: its first {entry.size:,} "
                f"bytes were learned before as {entry.name} ({entry.rows:,} rows), by an earlier version that did "
                f"not note which rows; put the new rows into a file of their own, or unlearn the old part first "
                f"(from a file of just these bytes), or learn all of it, old rows twice",
                arguments=("again",),
            )
