"""One table on its way into a model: cut into pieces, of which those are learned that the ledger does not have.

A piece whose rows were mostly learned before, in another order or among others, is an error: they would count twice.
Where rows repeat by nature (few distinct ones), nothing can be told from that, and such pieces are learned.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.hashing import hash_keys
from remanence.labels import LabelReader, check_new_labels
from remanence.store.content.cutting import DISTINCT, KnownPieces, Span, cut, piece_size, rows_ahead
from remanence.store.content.earlier import check_not_grown, listed_pieces
from remanence.store.content.row_keys import DIFFERENT, RowKeys
from remanence.store.jobs.columns import Columns, Samples, ignore_name_warnings, joined, missing_entries, samples
from remanence.store.jobs.holdings import Holdings
from remanence.store.jobs.label_sets import distinct_labels
from remanence.store.jobs.piecewise import with_piece
from remanence.store.jobs.session import Session, batch_size, copy_for_trial
from remanence.store.ledger import Entry
from remanence.tables import Piece, Table

GROUP = 16  # pieces learned between two moments at which the model may be written
SHARE = 0.5  # of a piece that may look familiar without an error
SOME, SOME_SHARE = 10, 0.05  # rows, and share of the rows, that are worth a word if they look familiar

OnRows = Callable[[str, int], None]  # called with the name of a piece and the rows just read of it


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


class LearnFile:
    """Learns a table into the model of a session; the session is changed piece by piece."""

    def __init__(
        self, session: Session, table: Table, columns: Columns, rules: Rules, on_rows: OnRows, decided: bool
    ) -> None:
        model = session.model
        self.session, self.table, self.columns, self.rules, self.on_rows = session, table, columns, rules, on_rows
        self.name, self.counts, self.warnings = table.path.name, FileCounts(), list[str]()
        self.labels = LabelReader(columns.label_kind, decided and columns.label_kind is not None)
        self.size = piece_size(len(columns.features), separate=model.pieces is not None)
        self.batch = batch_size(model.learner, len(columns.features))
        self.held = Holdings.of(model.ledger, model.notes)
        self.rows = RowKeys.empty(rules.every_row) if model.row_keys is None else model.row_keys
        self.at_first, self.used = self.rows, dict[int, int]()
        self.met: Counter[str] = Counter()  # content that is in one file more than once is learned as often
        self.trial = model
        self.familiar = self.read = self.missing = self.pending = 0
        self.first_missing, self.unfinished = -1, False

    def learn(self) -> None:
        """Learn what is new in the table."""
        pieces = self._not_listed()
        known = KnownPieces(self.held.ledger)
        enough = rows_ahead(known, self.size) + self.size
        ahead: list[Samples] = []
        for piece in pieces:
            for part in samples(piece, self.columns, True, self.labels):
                self._count(part)
                ahead.append(part)
                if sum(len(part.X) for part in ahead) > enough:
                    ahead = [self._take(joined(ahead), known, ended=False)]
        if ahead:
            self._take(joined(ahead), known, ended=True)
        if self.missing and not self.rules.drop and (self.unfinished or not self.counts.skipped):
            raise missing_entries(self.missing, self.read, self.name, self.first_missing)
        self.counts.dropped = self.missing
        self._commit(ended=True)
        if self.familiar >= min(SOME, max(SOME_SHARE * self.counts.learned, 2)):
            self.warnings.append(
                f"{self.familiar:,} rows of {self.name} look like rows learned before, among others that are new; all "
                f"of them were learned"
            )

    def _not_listed(self) -> list[Piece]:
        """The parts of the file that are not in the ledger as files of an earlier version."""
        pieces = list(self.table.pieces())
        if self.rules.again or not self.held.ledger.by_file():
            return pieces
        listed = {piece.name: piece for piece in listed_pieces(self.table, self.held)}
        self.counts.skipped += sum(self.held.rows_of(piece.fingerprint()) for piece in listed.values())
        left = [piece for piece in pieces if piece.name not in listed]
        if left:
            check_not_grown(self.table, self.held)
        return left

    def _count(self, part: Samples) -> None:
        if part.missing and self.first_missing < 0:
            self.first_missing = part.first_missing
        self.read += len(part.X) + part.missing
        self.missing += part.missing

    def _take(self, ahead: Samples, known: KnownPieces, ended: bool) -> Samples:
        """Learn the pieces that the next rows are cut into; returns the rows that are left."""
        if not len(ahead.X):
            return ahead
        keys = ahead.keys()
        done = 0
        for span in self._spans(keys, known, ended):
            part = slice(span.first, span.first + span.rows)
            self._span(span, ahead, keys[part], part)
            done = span.first + span.rows
        return ahead.only(slice(done, None))

    def _spans(self, keys: Array, known: KnownPieces, ended: bool) -> Iterator[Span]:
        if not self.rows.every:
            yield from cut(keys, known, self.size, ended)
            return
        for first in range(0, len(keys), 2 * self.size):  # rows are known one by one: any cut will do
            part = keys[first : first + 2 * self.size]
            yield Span(first, len(part), hash_keys(part), "0" * 16, known=False)

    def _span(self, span: Span, ahead: Samples, keys: Array, part: slice) -> None:
        rows = ahead.only(part)
        if self.rows.every and not self.rules.again:
            new = self.at_first.new_rows(keys, self.used)
            self.counts.skipped += int((~new).sum())
            rows, keys = rows.only(new), keys[new]
            if not len(keys):
                self.on_rows(self.name, 0)
                return
            span = replace(span, rows=len(keys), fingerprint=hash_keys(keys))
            mark: str | None = self.held.to_learn(span.fingerprint, 0, again=True)
        else:
            mark = self.held.to_learn(span.fingerprint, self.met[span.fingerprint], self.rules.again)
            self.met[span.fingerprint] += 1
        if mark is None:
            self.counts.skipped += span.rows
            self.on_rows(self.name, 0)
            return
        if self.missing and not self.rules.drop:
            self.unfinished = True  # nothing more is learned: the error comes once all gaps are counted
            return
        if not self.rules.again and not self.rows.every:
            self._check_familiar(keys)
        self._learn(span, mark, rows, keys)

    def _check_familiar(self, keys: Array) -> None:
        """Raise an InputError for rows that are mostly known, and count those that are not many."""
        known = self.rows.familiar(keys)
        if known == 0 or self.rows.distinct() < DIFFERENT:
            return
        if known >= DISTINCT and known > SHARE * len(keys):
            first = self.counts.skipped + self.counts.learned + 1
            raise InputError(
                f"expected rows that were not learned yet, but about {known:,} of {len(keys):,} rows of {self.name} "
                f"(from row {first:,} on) were learned before, in another order or among others, and would count "
                f"twice; put the new rows into a file of their own, or learn all of them again, or start a model whose "
                f"ledger knows every row",
                arguments=("again", "ledger"),
            )
        self.familiar += known

    def _learn(self, span: Span, mark: str, rows: Samples, keys: Array) -> None:
        from sklearn.base import clone

        model, separate = self.trial, self.trial.pieces is not None
        learner = clone(model.learner) if separate else copy_for_trial(model.learner)
        known = vars(model.learner).get("classes_", ())
        check_new_labels(distinct_labels(rows.y), known, self.rules.drop, self.name)
        for i in range(0, len(rows.X), self.batch):
            with ignore_name_warnings():
                learner.partial_fit(rows.X[i : i + self.batch], rows.y[i : i + self.batch])
            self.on_rows(self.name, len(rows.X[i : i + self.batch]))
        taught = with_piece(model, mark, learner) if separate else replace(model, learner=learner)
        entry = Entry(mark, self.name, len(rows.X), begins=span.begins, span=span.rows)
        self.held = replace(self.held, ledger=self.held.ledger.with_entry(entry))
        self.trial = replace(taught, ledger=self.held.ledger)
        self.rows = self.rows.with_rows(keys)
        self.counts.learned += len(rows.X)
        self.pending += 1
        if self.pending >= GROUP:
            self._commit()

    def _commit(self, ended: bool = False) -> None:
        """Hand what was learned to the session, which may write it; not while the kind of labels may still change."""
        if self.pending and (ended or self.labels.decided or self.labels.kind != "integers"):
            self._hand_over()

    def _hand_over(self) -> None:
        columns = self.columns
        if columns.label is not None:
            columns = replace(columns, label_kind=self.labels.kind)
        notes = {**self.trial.notes, **columns.to_notes()}
        dialect = getattr(self.table, "dialect", None)
        if dialect is not None and dialect.to_notes():
            notes["csv"] = dialect.to_notes()
        self.trial = replace(self.trial, notes=notes, row_keys=self.rows)
        self.session.commit(self.trial)
        self.pending = 0
