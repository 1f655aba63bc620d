"""Pieces of rows that a ledger knows by their content, and how a table is cut into them.

    a piece ends behind a row whose key is 0 modulo SIZE, at the latest after 2 SIZE rows, or at the end of the file (C)

The cuts depend on the rows alone (content-defined chunking), not on their place in a file, its name or its format. So a
file that was converted, compressed, reordered by pieces or joined with others is cut in the same places, and pieces
that are in the ledger are found again. The last piece of a file ends where the file did; when rows are appended, it is
found by its length. A piece that is known is looked for at every row, by the key of its first row.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from remanence.arrays import Array
from remanence.hashing import hash_keys, key_words
from remanence.store.ledger import Ledger

SIZE = 4096  # rows of a piece on average
LARGEST = 1 << 22  # numbers in a piece at most
DISTINCT = 32  # rows from which on a piece is told from others wherever it is


def piece_size(columns: int, separate: bool) -> int:
    """SIZE for tables of so many columns; larger if every piece has a learner of its own (`separate`)."""
    return max(min(16 * SIZE if separate else SIZE, LARGEST // (2 * max(columns, 1))), 64)


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of a table that are one piece."""

    first: int
    rows: int
    fingerprint: str
    begins: str  # the first 64 bits of the key of its first row
    known: bool  # whether a ledger has or had it


@dataclass(frozen=True)
class KnownPieces:
    """The pieces that are or were in a ledger, by the key of their first row."""

    ledger: Ledger

    @cached_property
    def by_start(self) -> dict[int, dict[int, set[str]]]:
        """Key of the first row: length: fingerprints."""
        found: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for entry in self.ledger:
            if entry.begins is not None and entry.span:
                found[int(entry.begins, 16)][entry.span].add(entry.fingerprint)
        return found

    @cached_property
    def starts(self) -> Array:
        """The keys of first rows, sorted, (k,)."""
        return np.array(sorted(self.by_start), np.uint64)

    @cached_property
    def longest(self) -> int:
        """The rows of the longest piece."""
        return max((rows for lengths in self.by_start.values() for rows in lengths), default=0)

    def may_start(self, words: Array) -> Array:
        """The places where a known piece may start, given the first 64 bits of the keys, in order."""
        if not len(self.starts):
            return np.empty(0, int)
        where = np.minimum(np.searchsorted(self.starts, words), len(self.starts) - 1)
        return np.flatnonzero(self.starts[where] == words)

    def at(self, keys: Array, word: int, least: int = 1) -> Iterator[tuple[int, str]]:
        """Length and fingerprint of the known pieces that `keys` start with, the longest first."""
        lengths = self.by_start.get(word, {})
        for rows in sorted(lengths, reverse=True):
            if least <= rows <= len(keys):
                fingerprint = hash_keys(keys[:rows])
                if fingerprint in lengths[rows]:
                    yield rows, fingerprint


def cut(keys: Array, known: KnownPieces, size: int, ended: bool) -> Iterator[Span]:
    """Cut the next rows of a table into pieces (C); without `ended`, as far as that is decided without further rows."""
    words = key_words(keys)
    starts = known.may_start(words)
    boundaries = np.flatnonzero(words % np.uint64(size) == 0) + 1
    first = 0
    while first < len(keys) and (ended or len(keys) - first >= rows_ahead(known, size)):
        found = next(known.at(keys[first:], int(words[first])), None)
        if found is not None:
            rows, fingerprint = found
        else:
            cuts = boundaries[np.searchsorted(boundaries, first + size // 8) :]
            end = min([first + 2 * size, len(keys), *cuts[:1].tolist()])
            rows = _until_known(keys, words, starts, known, first, end) - first
            fingerprint = hash_keys(keys[first : first + rows])
        yield Span(first, rows, fingerprint, f"{int(words[first]):016x}", found is not None)
        first += rows


def rows_ahead(known: KnownPieces, size: int) -> int:
    """How many rows decide on a cut: the longest piece, and a known one that starts within it."""
    return 2 * size + max(2 * size, known.longest)


def _until_known(keys: Array, words: Array, starts: Array, known: KnownPieces, first: int, end: int) -> int:
    """Where the first known piece of some size starts behind `first`, or `end`."""
    for place in starts[np.searchsorted(starts, first + 1) : np.searchsorted(starts, end)].tolist():
        if next(known.at(keys[place:], int(words[place]), least=DISTINCT), None) is not None:
            return int(place)
    return end


def known_spans(keys: Array, known: KnownPieces) -> Iterator[Span]:
    """Every known piece among the rows of a table, wherever it is; they may overlap."""
    words = key_words(keys)
    for place in known.may_start(words).tolist():
        for rows, fingerprint in known.at(keys[place:], int(words[place])):
            yield Span(place, rows, fingerprint, f"{int(words[place]):016x}", True)
