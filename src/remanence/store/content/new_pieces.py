"""Which rows of a table a model has not learned yet, piece by piece, from the keys of its rows alone.

A piece whose rows were mostly learned before, in another order or among others, is an error: they would count twice.
Where rows repeat by nature (few distinct ones), nothing can be told from that, and such pieces are learned.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.hashing import hash_keys
from remanence.store.content.cutting import DISTINCT, KnownPieces, Span, cut, rows_ahead
from remanence.store.content.row_keys import DIFFERENT, RowKeys
from remanence.store.jobs.holdings import Holdings
from remanence.store.ledger import Entry
from remanence.store.model_file import ModelFile

SHARE = 0.5  # of a piece that may look familiar without an error
CERTAIN = 8  # rows: as many and no others are not all known by chance
SOME, SOME_SHARE = 10, 0.05  # rows, and share of the rows, that are worth a word if they look familiar


@dataclass
class FileCounts:
    """What became of the rows of one file."""

    learned: int = 0
    skipped: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """How a table is learned."""

    drop: bool = False  # leave out rows with missing entries
    again: bool = False  # learn rows that are known once more
    every_row: bool = False  # in a new model, keep the keys of all rows


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A piece to learn, and the mark that the ledger will have it under."""

    span: Span
    mark: str
    keys: Array  # (n,) of the rows to learn
    chosen: Array | None = None  # (rows of the span,) which rows these are; None for all


class NewPieces:
    """The pieces of one table that a model has not learned yet; what was learned of it is added with `add`."""

    def __init__(self, model: ModelFile, rules: Rules, size: int, name: str) -> None:
        self.rules, self.size, self.name = rules, size, name
        self.held = Holdings.of(model.ledger, model.notes)
        self.rows = RowKeys.empty(rules.every_row) if model.row_keys is None else model.row_keys
        self.known, self.counts = KnownPieces(self.held.ledger), FileCounts()
        self.at_first, self.used = self.rows, dict[int, int]()
        self.met: Counter[str] = Counter()  # content that is in one file more than once is learned as often
        self.familiar, self.earlier, self.added = 0, 0, list[str]()  # rows that are known; of them from earlier files
        self.copies, self.repeats = 0, False  # of rows that are known one by one, and whether they repeat by nature

    @property
    def ahead(self) -> int:
        """How many rows must be there to decide on a cut before the table ends."""
        return rows_ahead(self.known, self.size) + self.size

    def spans(self, keys: Array, ended: bool) -> Iterator[Span]:
        """The pieces that the next rows are cut into."""
        if not self.rows.every:
            yield from cut(keys, self.known, self.size, ended)
            return
        for first in range(0, len(keys), 2 * self.size):  # rows are known one by one: any cut will do
            part = keys[first : first + 2 * self.size]
            yield Span(first, len(part), hash_keys(part), "0" * 16, known=False)

    def choose(self, span: Span, keys: Array) -> NewPiece | None:
        """What is new in a piece with rows of these keys; None if all of it is known."""
        if self.rows.every and not self.rules.again:
            new = self.at_first.new_rows(keys, self.used)
            self.counts.skipped += int((~new).sum())
            keys = keys[new]
            if not len(keys):
                return None
            span = replace(span, rows=len(keys), fingerprint=hash_keys(keys))
            mark = self.held.to_learn(span.fingerprint, 0, again=True)
            assert mark is not None
            return NewPiece(span, mark, keys, new)
        mark = self.held.to_learn(span.fingerprint, self.met[span.fingerprint], self.rules.again)
        self.met[span.fingerprint] += 1
        if mark is None:
            self.counts.skipped += span.rows
            return None
        return NewPiece(span, mark, keys)

    def check_familiar(self, piece: NewPiece) -> None:
        """Raise an InputError for rows that are mostly known, and count those that are not many."""
        if self.rules.again:
            return
        if self.rows.every:
            self._count_copies(piece.keys)
            return
        known = self.rows.familiar(piece.keys)
        if known == 0 or self.rows.distinct() < DIFFERENT:
            return
        mostly = known >= DISTINCT and known > SHARE * len(piece.keys)
        if mostly or (known >= CERTAIN and known == len(piece.keys) and self.rows.are_all):
            raise self._familiar(known, piece.keys)
        self.familiar += known
        self.earlier += self.at_first.familiar(piece.keys)

    def _familiar(self, known: int, keys: Array) -> InputError:
        """The error for rows that are mostly known: from earlier files, or from further up in this one."""
        first = self.counts.skipped + self.counts.learned + 1
        rows = f"about {known:,} of {len(keys):,} rows of {self.name} (from row {first:,} on)"
        if 2 * self.at_first.familiar(keys) < known:
            return InputError(
                f"expected every row once, but {rows} are copies of rows above them, and would count twice; leave out "
                f"the copies, or learn every row as often as it is there",
                arguments=("again",),
            )
        return InputError(
            f"expected rows that were not learned yet, but {rows} were learned before, in another order or among "
            f"others, and would count twice; put the new rows into a file of their own, or learn all of them again, or "
            f"start a model whose ledger knows every row",
            arguments=("again", "ledger"),
        )

    def _count_copies(self, keys: Array) -> None:
        copies = self.rows.familiar(keys)
        if copies and not self.copies:
            self.repeats = self.rows.distinct() < DIFFERENT
        self.copies += copies
        self.earlier += self.at_first.familiar(keys)

    def check_copies(self) -> None:
        """Raise an InputError if half of the rows of the table, or more, are further copies of rows that are known."""
        rows = self.counts.learned + self.counts.skipped
        if self.copies >= CERTAIN and 2 * self.copies >= rows and not self.repeats:
            raise InputError(
                f"expected rows that were not learned yet, but {self.copies:,} of {rows:,} rows of {self.name} are "
                f"further copies of rows {self._met}, and would count once more; leave out the copies, or learn every "
                f"row as often as it is there",
                arguments=("again",),
            )

    def add(self, piece: NewPiece) -> None:
        """A piece was learned: the ledger has it from now on."""
        rows, span = len(piece.keys), piece.span
        entry = Entry(piece.mark, self.name, rows, begins=span.begins, span=span.rows)
        self.held = replace(self.held, ledger=self.held.ledger.with_entry(entry))
        self.rows = self.rows.with_rows(piece.keys)
        self.counts.learned += rows
        self.added.append(span.fingerprint)

    def warnings(self) -> list[str]:
        """What to tell of the table as a whole."""
        if self.copies and not self.repeats:
            return [f"{self.copies:,} rows of {self.name} are further copies of rows {self._met}; they were learned"]
        if self.familiar < min(SOME, max(SOME_SHARE * self.counts.learned, 2)):
            return []
        return [
            f"{self.familiar:,} rows of {self.name} look like rows {self._met}, among others that are new; all of "
            f"them were learned"
        ]

    @property
    def _met(self) -> str:
        """Where most rows that are known were met."""
        return "learned before" if 2 * self.earlier >= self.familiar + self.copies else "above them"
