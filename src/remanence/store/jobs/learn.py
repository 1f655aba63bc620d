"""Learning from tables into a model file: every piece exactly once, whatever is interrupted where.

    learned + skipped + dropped = the rows of the files                                                          (T)

A piece (a file, or a row group of a Parquet file) is identified by its content. One that is in the ledger is skipped;
one that fails half-way leaves the model as it was before that piece. A CSV file is parsed once and hashed meanwhile:
its rows go into a copy of the model, which is discarded if the hash turns out to be in the ledger.
"""

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from remanence.errors import InputError, NumericalError
from remanence.labels import LabelKindChanged, LabelReader, check_new_labels, kind_of_classes
from remanence.store.jobs.columns import Columns, samples
from remanence.store.jobs.holdings import Holdings
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.piecewise import with_piece
from remanence.store.jobs.session import Session, batch_size, copy_for_trial, open_session
from remanence.store.ledger import Entry
from remanence.store.model_file import WAIT
from remanence.tables import Piece, Table, open_table

ROW_NUMBER_NAME = re.compile(r"(.*[_ .-])?(id|idx|index|nr|no|row|rownum|unnamed)([_ :.-]*\d*)", re.IGNORECASE)

OnRows = Callable[[str, int], None]  # called with the name of a piece and the rows just read of it


@dataclass
class FileCounts:
    """What became of the rows of one file."""

    learned: int = 0
    skipped: int = 0
    dropped: int = 0


@dataclass
class LearnReport:
    """What became of the rows of every file (T)."""

    files: dict[str, FileCounts] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def total(self, what: str) -> int:
        """The sum over all files of "learned", "skipped" or "dropped"."""
        return sum(getattr(counts, what) for counts in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        totals = {what: self.total(what) for what in ("learned", "skipped", "dropped")}
        warned = {"warnings": self.warnings} if self.warnings else {}
        return {**totals, **warned, "files": [{"file": name, **vars(counts)} for name, counts in self.files.items()]}


class _Trial:
    """A learner that has learned one piece, and what was noticed on the way."""

    def __init__(self, learner: Any, suspects: dict[int, str]) -> None:
        self.learner, self.suspects = learner, suspects  # suspects: column: name of features that may count the rows
        self.learned = self.dropped = 0


class LearnJob:
    """Learning in progress, with the model file locked."""

    def __init__(self, session: Session, options: LearnOptions, drop: bool, again: bool) -> None:
        self.session, self.options, self.drop, self.again = session, options, drop, again
        self.report = LearnReport()
        if not session.new:
            options.check(session.model, session.columns)

    def learn(self, path: Path | str, on_rows: OnRows = lambda name, rows: None) -> FileCounts:
        """Learn a file. If a piece of it raises an error, the pieces before it are kept, as are the files before."""
        started = time.monotonic()
        counts = FileCounts()
        try:
            with naming_file(Path(path).name):
                table = open_table(path, self._holdings().lengths())
                columns = self._columns(table)
                met: Counter[str] = Counter()  # content that is in one file more than once is learned as often
                for piece in table.pieces():
                    columns = self._piece(piece, columns, counts, met, on_rows)
        finally:
            if counts != FileCounts():
                self.report.files[str(path)] = counts
            self.report.seconds += time.monotonic() - started
        self.report.files[str(path)] = counts
        return counts

    def _holdings(self) -> Holdings:
        return Holdings.of(self.session.model.ledger, self.session.model.notes)

    def _columns(self, table: Table) -> Columns:
        """The meaning of the columns of the table for the model."""
        known, options = self.session.columns, self.options
        if known is None:
            found = Columns.from_table(table, options.label, options.targets, options.ignored)
            return found if self.session.new else adopt_columns(found, self.session.model.learner, table)
        known = known.with_ignored(options.ignored)
        known.check(table)
        return known

    def _piece(
        self, piece: Piece, columns: Columns, counts: FileCounts, met: "Counter[str]", on_rows: OnRows
    ) -> Columns:
        model, held = self.session.model, self._holdings()

        def mark() -> str | None:
            return held.to_learn(piece.fingerprint(), met[piece.fingerprint()], self.again)

        def skip() -> Columns:
            counts.skipped += held.rows_of(piece.fingerprint())
            met[piece.fingerprint()] += 1
            on_rows(piece.name, 0)
            return columns

        if not self.again and held.may_know(piece.size) and mark() is None:
            return skip()
        try:
            trial, columns = self._learned(piece, columns, held, on_rows)
        except LabelKindChanged:
            trial, columns = self._learned(piece, replace(columns, label_kind="text"), held, on_rows, decided=False)
        free = mark()
        if free is None:
            return skip()
        met[piece.fingerprint()] += 1
        ledger = model.ledger.with_entry(Entry(free, piece.name, trial.learned, size=piece.size))
        taught = replace(model, learner=trial.learner)
        if model.pieces is not None:
            taught = with_piece(model, free, trial.learner)
        self.session.commit(replace(taught, ledger=ledger, notes={**model.notes, **columns.to_notes()}))
        counts.learned, counts.dropped = counts.learned + trial.learned, counts.dropped + trial.dropped
        self.report.warnings += [
            f"the column {name!r} counts the rows of {piece.name} and was learned like a measurement; if it says "
            f"nothing about the output, start again without it"
            for name in trial.suspects.values()
        ]
        return columns

    def _learned(
        self, piece: Piece, columns: Columns, held: Holdings, on_rows: OnRows, decided: bool = True
    ) -> tuple[_Trial, Columns]:
        """A copy of the learner (or a new one, where each piece has its own) that has learned the piece."""
        from sklearn.base import clone

        model = self.session.model
        separate = model.pieces is not None
        learner = clone(model.learner) if separate else copy_for_trial(model.learner)
        trial = _Trial(learner, {} if len(model.ledger) else row_number_columns(columns))
        size = batch_size(learner, len(columns.features))
        labels = LabelReader(columns.label_kind, decided and columns.label_kind is not None)
        try:
            for part in samples(piece, columns, self.drop, labels):
                if not self.again:
                    check_not_grown(piece, held)
                known = vars(model.learner if separate else learner).get("classes_", ())
                check_new_labels(part.y, known, self.drop, piece.name)
                trial.suspects = {j: n for j, n in trial.suspects.items() if _counts_rows(part.X[:, j], part.places)}
                for i in range(0, len(part.X), size):
                    with ignore_name_warnings():
                        learner.partial_fit(part.X[i : i + size], part.y[i : i + size])
                    on_rows(piece.name, len(part.X[i : i + size]))
                trial.learned, trial.dropped = trial.learned + len(part.X), trial.dropped + part.missing
        except InputError:
            if not self.again:
                check_not_grown(piece, held)  # (then that is the message that helps)
            raise
        if columns.label is not None:
            columns = replace(columns, label_kind=labels.kind)
        return trial, columns


def row_number_columns(columns: Columns) -> dict[int, str]:
    """Position: name of features whose name suggests that they number the rows."""
    return {j: name for j, name in enumerate(columns.features) if ROW_NUMBER_NAME.fullmatch(name)}


def _counts_rows(column: Any, places: Any) -> bool:
    """Whether a column is 0, 1, 2, … or 1, 2, 3, …"""
    return bool((column == places).all() or (column == places + 1).all())


@contextmanager
def learn_session(
    model: str | Path, options: LearnOptions, drop: bool = False, again: bool = False, wait: float = WAIT
) -> Iterator[LearnJob]:
    """Learn into a model file, created if there is none; what was learned is on the disk when the block ends.

    `drop` leaves out rows with missing entries, `again` learns data that are in the ledger once more.
    """
    with open_session(model, options.new_model, wait) as session:
        yield LearnJob(session, options, drop, again)


def check_not_grown(piece: Piece, held: Holdings) -> None:
    """Raise an InputError if the piece starts with a file that was learned before: its rows would count twice."""
    entry = held.grown_from(piece.prefix_hashes())
    if entry is not None:
        raise InputError(
            f"expected rows that were not learned yet, but {piece.name} has grown: its first {entry.size:,} bytes were "
            f"learned before as {entry.name} ({entry.rows:,} rows); put the new rows into a file of their own, or "
            f"unlearn the old part first (from a file of just these bytes), or learn all of it, old rows twice",
            arguments=("again",),
        )


def adopt_columns(columns: Columns, learner: Any, table: Table) -> Columns:
    """The columns of a first table for a model that was fitted in Python."""
    known = vars(learner)
    regressor = type(learner).__name__ == "ContinualRegressor"
    if regressor == (columns.label is not None) or not columns.outputs:
        wanted = "targets" if regressor else "label"
        raise InputError(f"expected `{wanted}` with a {type(learner).__name__}", arguments=(wanted,))
    if "n_features_in_" not in known:
        return columns
    if "classes_" in known:
        columns = replace(columns, label_kind=kind_of_classes(known["classes_"], learning=True))
    if "feature_names_in_" in known:
        named = replace(columns, features=tuple(map(str, known["feature_names_in_"])))
        named.check(table)
        return named
    check_feature_count(len(columns.features), learner, table)
    return columns


def check_feature_count(found: int, learner: Any, table: Table) -> None:
    """Raise an InputError if a table has another number of features than a model that was fitted without names."""
    if found != learner.n_features_in_:
        raise InputError(
            f"expected {learner.n_features_in_} columns of features in {table.path.name}, as the model was fitted "
            f"with in Python, got {found}; ignore the others",
            arguments=("ignored",),
        )


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Add the name of the file to errors that do not have it."""
    try:
        yield
    except (InputError, NumericalError) as problem:
        if name in str(problem):
            raise
        raise type(problem)(f"cannot use {name}: {problem}", arguments=problem.arguments) from None


@contextmanager
def ignore_name_warnings() -> Iterator[None]:
    """Silence scikit-learn's warning about feature names: columns were put in order by name before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
