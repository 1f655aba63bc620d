"""Teaching a model file from tables: every piece exactly once, whatever is interrupted where.

    learned + skipped + dropped = the rows of the files                                                          (T)

A piece (a file, or a row group of a Parquet file) is known by its content. One that is in the ledger is skipped; one
that fails half-way leaves the model as it was before that piece.
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
from remanence.store.jobs.columns import Columns, samples
from remanence.store.jobs.holdings import Holdings
from remanence.store.jobs.labels import Kind, check_new_labels
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.piecewise import with_piece
from remanence.store.jobs.session import Session, batch_size, copy_for_trial, open_session
from remanence.store.ledger import Entry
from remanence.store.model_file import WAIT
from remanence.tables import Piece, Table, open_table

CALLED_LIKE_A_NUMBER = re.compile(r"(.*[_ .-])?(id|idx|index|nr|no|row|rownum|unnamed)([_ :.-]*\d*)", re.IGNORECASE)


class GrownFile(InputError):
    """A file whose beginning was learned before, when it was shorter."""


OnRows = Callable[[str, int], None]  # the name of a piece, and rows that were just learned


@dataclass
class Counts:
    """What became of the rows of one file."""

    learned: int = 0
    skipped: int = 0
    dropped: int = 0


@dataclass
class Report:
    """What became of the rows of every file (T)."""

    files: dict[str, Counts] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def total(self, what: str) -> int:
        return sum(getattr(counts, what) for counts in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        totals = {what: self.total(what) for what in ("learned", "skipped", "dropped")}
        told = {"warnings": self.warnings} if self.warnings else {}
        return {**totals, **told, "files": [{"file": name, **vars(counts)} for name, counts in self.files.items()]}


class LearnJob:
    """Teaching in progress; the model file is ours alone until it is over."""

    def __init__(self, session: Session, options: LearnOptions, drop: bool, again: bool) -> None:
        self.session, self.options, self.drop, self.again = session, options, drop, again
        self.report = Report()
        if not session.new:
            options.check(session.model, session.columns)

    def learn(self, path: Path | str, on_rows: OnRows = lambda name, rows: None) -> Counts:
        """Learn a file; if it is refused, its pieces before the bad one are kept, and so are the files before."""
        begun = time.monotonic()
        counts = Counts()
        try:
            with naming_file(Path(path).name):
                table = open_table(path)
                columns = self._columns(table)
                met: Counter[str] = Counter()  # content that stands in one file more than once counts as often
                for piece in table.pieces():
                    columns = self._piece(piece, columns, counts, met, on_rows)
        finally:
            if counts != Counts():
                self.report.files[str(path)] = counts
            self.report.seconds += time.monotonic() - begun
        self.report.files[str(path)] = counts
        return counts

    def _columns(self, table: Table) -> Columns:
        """What the columns of the table mean to the model, or a refusal."""
        known, options = self.session.columns, self.options
        if known is None:
            found = Columns.of(table, options.label, options.targets, options.ignored)
            return found if self.session.new else adopt_columns(found, self.session.model.learner, table)
        known = known.ignoring(options.ignored)
        known.check(table)
        return known

    def _piece(self, piece: Piece, columns: Columns, counts: Counts, met: "Counter[str]", on_rows: OnRows) -> Columns:
        model = self.session.model
        held = Holdings.of(model.ledger, model.notes)
        begun = piece.beginnings(held.lengths()) if piece.grows else {}
        fingerprint = piece.fingerprint()
        mark = held.to_learn(fingerprint, met[fingerprint], self.again)
        met[fingerprint] += 1
        if mark is None:
            counts.skipped += held.rows_of(fingerprint)
            on_rows(piece.name, 0)
            return columns
        if not self.again:
            check_not_grown(piece, held.grown_from(begun))
        from sklearn.base import clone

        columns = columns.seeing(piece)
        apart = model.pieces is not None
        learner, learned, dropped = clone(model.learner) if apart else copy_for_trial(model.learner), 0, 0
        size = batch_size(learner, len(columns.features))
        counting = row_number_columns(columns) if not len(model.ledger) else {}  # at first sight
        for part in samples(piece, columns, self.drop):
            known = vars(model.learner if apart else learner).get("classes_", ())
            check_new_labels(part.y, known, self.drop, piece.name)
            counting = {j: name for j, name in counting.items() if _counts_rows(part.X[:, j], part.places)}
            for i in range(0, len(part.X), size):
                with ignore_name_warnings():
                    learner.partial_fit(part.X[i : i + size], part.y[i : i + size])
                on_rows(piece.name, len(part.X[i : i + size]))
            learned, dropped = learned + len(part.X), dropped + part.missing
        ledger = model.ledger.with_entry(Entry(mark, piece.name, learned, size=piece.size))
        taught = with_piece(model, mark, learner) if apart else replace(model, learner=learner)
        self.session.commit(replace(taught, ledger=ledger, notes={**model.notes, **columns.to_notes()}))
        counts.learned, counts.dropped = counts.learned + learned, counts.dropped + dropped
        self.report.warnings += [
            f"the column {name!r} counts the rows of {piece.name} and was learned like a measurement; if it says "
            f"nothing of the answer, begin anew without it"
            for name in counting.values()
        ]
        return columns


def row_number_columns(columns: Columns) -> dict[int, str]:
    """Features that are called as if they numbered the rows, by their places."""
    return {j: name for j, name in enumerate(columns.features) if CALLED_LIKE_A_NUMBER.fullmatch(name)}


def _counts_rows(column: Any, places: Any) -> bool:
    """Whether a column is 0, 1, 2, … or 1, 2, 3, …"""
    return bool((column == places).all() or (column == places + 1).all())


@contextmanager
def learn_session(
    model: str | Path, options: LearnOptions, drop: bool = False, again: bool = False, wait: float = WAIT
) -> Iterator[LearnJob]:
    """Teach a model file, making it if it is not there; what was learned is on the disk when the block ends.

    `drop` leaves out rows with missing entries, `again` learns what the ledger has already once more.
    """
    with open_session(model, options.new_model, wait) as session:
        yield LearnJob(session, options, drop, again)


def check_not_grown(piece: Piece, entry: Entry | None) -> None:
    """Rows that were learned as a shorter file would count twice."""
    if entry is not None:
        raise GrownFile(
            f"expected rows that were not learned yet, but {piece.name} has grown: its first {entry.size:,} bytes were "
            f"learned before as {entry.name} ({entry.rows:,} rows); put the new rows into a file of their own, or "
            f"unlearn the old part first (from a file of just these bytes), or learn all of it, old rows twice"
        )


def adopt_columns(columns: Columns, learner: Any, table: Table) -> Columns:
    """The columns of a first table for a model that was taught in Python."""
    known = vars(learner)
    regressor = type(learner).__name__ == "ContinualRegressor"
    if regressor == (columns.label is not None) or not columns.answers:
        raise InputError(f"expected {'--target' if regressor else '--label'} with a {type(learner).__name__}")
    if "n_features_in_" not in known:
        return columns
    if "feature_names_in_" in known:
        named = replace(columns, features=tuple(map(str, known["feature_names_in_"])))
        named.check(table)
        return replace(named, kind=_kind(known))
    if len(columns.features) != known["n_features_in_"]:
        raise InputError(
            f"expected {known['n_features_in_']} columns of features in {table.path.name}, as the model was taught "
            f"with in Python, got {len(columns.features)}; leave others out with --ignore"
        )
    return replace(columns, kind=_kind(known))


def _kind(known: dict[str, Any]) -> Kind | None:
    if "classes_" not in known:
        return None
    kind = known["classes_"].dtype.kind
    if kind not in "iuU":
        raise InputError(f"expected a model whose labels are integers or text, got {known['classes_'].dtype}")
    return "text" if kind == "U" else "integers"


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Whatever is refused is refused with the name of the data it came from."""
    try:
        yield
    except (InputError, NumericalError) as problem:
        if name in str(problem):
            raise
        raise type(problem)(f"cannot use {name}: {problem}") from None


@contextmanager
def ignore_name_warnings() -> Iterator[None]:
    """Columns are put in order by name before they come to a learner, which need not say that it sees no names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
