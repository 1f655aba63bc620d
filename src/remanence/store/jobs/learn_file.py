"""One table on its way into a model: cut into pieces, of which those are learned that the ledger does not have."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from remanence.arrays import Array
from remanence.labels import LabelReader, check_new_labels
from remanence.store.content.cutting import Span, piece_size
from remanence.store.content.earlier import check_not_grown, listed_pieces
from remanence.store.content.new_pieces import FileCounts, NewPiece, NewPieces, Rules
from remanence.store.content.row_queue import RowQueue
from remanence.store.jobs.columns import Columns, Samples, ignore_name_warnings, joined, missing_entries, samples
from remanence.store.jobs.label_sets import distinct_labels
from remanence.store.jobs.piecewise import with_piece
from remanence.store.jobs.session import Session, batch_size, copy_for_trial
from remanence.tables import Piece, Table

__all__ = ["FileCounts", "LearnFile", "OnRows", "Rules"]

GROUP = 16  # pieces learned between two moments at which the model may be written
TOGETHER = 1 << 23  # bytes from which on pieces are learned: every call has a price beside that of its rows

OnRows = Callable[[str, int], None]  # called with the name of a piece and the rows just read of it


class LearnFile:
    """Learns a table into the model of a session; the session is changed piece by piece."""

    def __init__(
        self, session: Session, table: Table, columns: Columns, rules: Rules, on_rows: OnRows, decided: bool
    ) -> None:
        model = session.model
        self.session, self.table, self.columns, self.rules, self.on_rows = session, table, columns, rules, on_rows
        self.name = table.path.name
        self.labels = LabelReader(columns.label_kind, decided and columns.label_kind is not None)
        size = piece_size(len(columns.features), separate=model.pieces is not None)
        self.batch = batch_size(model.learner, len(columns.features))
        self.new = NewPieces(model, rules, size, self.name)
        self.keys: list[Array] | None = None  # of all rows in their order, where they are to be kept
        self.trial = model
        self.waiting: list[Samples] = []  # pieces that the ledger has already, to be learned together
        self.read = self.missing = self.pending = self.listed = 0
        self.first_missing, self.unfinished = -1, False
        self.ends_missing = False  # the last row has a gap, so that no known row behind it says that it was seen before

    @property
    def counts(self) -> FileCounts:
        return self.new.counts

    def learn(self) -> None:
        """Learn what is new in the table."""
        pieces = self._not_listed()
        ahead = RowQueue()
        for piece in pieces:
            for part in samples(piece, self.columns, True, self.labels):
                self._count(part)
                ahead.push(part)
                if len(ahead) > self.new.ahead:
                    self._take(ahead, ended=False)
        self._take(ahead, ended=True)
        new = self.unfinished or self.ends_missing or not self.counts.skipped
        if self.missing and new and not self.rules.drop:
            raise missing_entries(self.missing, self.read, self.name, self.first_missing)
        self.new.check_copies()
        self.counts.dropped = self.missing
        self._commit(ended=True)

    def _not_listed(self) -> list[Piece]:
        """The parts of the file that are not in the ledger as files of an earlier version."""
        pieces, held = list(self.table.pieces()), self.new.held
        if self.rules.again or not held.ledger.by_file():
            return pieces
        listed = {piece.name: piece for piece in listed_pieces(self.table, held)}
        self.listed = sum(held.rows_of(piece.fingerprint()) for piece in listed.values())
        self.counts.skipped += self.listed
        left = [piece for piece in pieces if piece.name not in listed]
        if left:
            check_not_grown(self.table, held)
        return left

    def _count(self, part: Samples) -> None:
        if part.missing and self.first_missing < 0:
            self.first_missing = part.first_missing
        self.ends_missing = part.ends_missing
        self.read += len(part.X) + part.missing
        self.missing += part.missing

    def _take(self, ahead: RowQueue, ended: bool) -> None:
        """Learn the pieces that the next rows are cut into; rows that are left stay in the queue."""
        if not len(ahead):
            return
        keys, done = ahead.keys(), 0
        for span in self.new.spans(keys, ended):
            piece = self.new.choose(span, keys[span.first : span.first + span.rows])
            if piece is None:
                self.on_rows(self.name, 0)
            else:
                self._piece(piece, ahead, span)
            done = span.first + span.rows
        if self.keys is not None:
            self.keys.append(keys[:done])
        ahead.drop(done)

    def _piece(self, piece: NewPiece, ahead: RowQueue, span: Span) -> None:
        if self.missing and not self.rules.drop:
            self.unfinished = True  # nothing more is learned: the error comes once all gaps are counted
            return
        self.new.check_familiar(piece)
        rows = ahead.rows(span.first, span.rows)
        self._learn(piece, rows if piece.chosen is None else rows.only(piece.chosen))

    def _learn(self, piece: NewPiece, rows: Samples) -> None:
        """Learn a piece, with those that wait, or let it wait for the next ones.

        None waits where the model may be written, so that the numbers do not depend on whether it is.
        """
        if self.waiting and self.waiting[0].y.dtype != rows.y.dtype:
            self._learn_waiting()
        self.new.add(piece)
        self.waiting.append(rows)
        if self.trial.pieces is not None:
            self._learn_separately(piece.mark)
        elif self._one_task() or sum(part.X.nbytes for part in self.waiting) >= TOGETHER:
            self._learn_waiting()
        self.pending += 1
        if self.pending % GROUP == 0:
            self._commit()

    def _one_task(self) -> bool:
        """Whether the method takes every piece for a task, which must not be joined with others."""
        learner = self.trial.learner
        return learner.method is not None and learner.method.task_per_update

    def _learn_waiting(self) -> None:
        if self.waiting:
            learner = copy_for_trial(self.trial.learner)
            self._teach(learner)
            self.trial = replace(self.trial, learner=learner, ledger=self.new.held.ledger)

    def _learn_separately(self, mark: str) -> None:
        from sklearn.base import clone

        learner = clone(self.trial.learner)
        self._teach(learner)
        self.trial = replace(with_piece(self.trial, mark, learner), ledger=self.new.held.ledger)

    def _teach(self, learner: Any) -> None:
        """Learn the rows that wait."""
        rows, self.waiting = joined(self.waiting), []
        known = vars(self.trial.learner).get("classes_", ())
        check_new_labels(distinct_labels(rows.y), known, self.rules.drop, self.name)
        for i in range(0, len(rows.X), self.batch):
            with ignore_name_warnings():
                learner.partial_fit(rows.X[i : i + self.batch], rows.y[i : i + self.batch])
            self.on_rows(self.name, len(rows.X[i : i + self.batch]))

    def _commit(self, ended: bool = False) -> None:
        """Hand what was learned to the session, which may write it; not while the kind of labels may still change."""
        self._learn_waiting()
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
        self.trial = replace(self.trial, notes=notes, row_keys=self.new.rows)
        self.session.commit(self.trial)
        self.pending = 0
