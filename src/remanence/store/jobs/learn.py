"""Learning from tables into a model file: every row exactly once, whatever is interrupted where.

    learned + skipped + dropped = the rows of the files                                                          (T)

A table is cut into pieces of rows that are known by their content (content.py). Pieces that are in the ledger are
skipped, the others are learned, each whole or not at all; a file that raises an error leaves the model as it was. Every
row is parsed once and hashed as it is learned. A model that keeps the keys of all rows knows them one by one.
"""

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError, MissingDependency, NumericalError
from remanence.labels import LabelKindChanged, kind_of_classes
from remanence.store.jobs.columns import Columns, ignore_name_warnings
from remanence.store.jobs.label_sets import SEPARATOR, separator_of
from remanence.store.jobs.learn_file import FileCounts, LearnFile, OnRows, Rules
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.session import Session, open_session
from remanence.store.model_file import WAIT
from remanence.tables import Dialect, Table, open_table
from remanence.tables.encoding.kinds import check_kinds, guess_kinds
from remanence.tables.paths import STANDARD_INPUT, local_file
from remanence.validation import check_number

__all__ = ["FileCounts", "LearnJob", "LearnReport", "OnRows", "ignore_name_warnings", "learn_session"]


@dataclass
class LearnReport:
    """What became of the rows of every file (T)."""

    files: dict[str, FileCounts] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)  # of the columns, where they are not all numbers

    def total(self, what: str) -> int:
        """The sum over all files of "learned", "skipped" or "dropped"."""
        return sum(getattr(counts, what) for counts in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        totals = {what: self.total(what) for what in ("learned", "skipped", "dropped")}
        warned: dict[str, Any] = {"warnings": self.warnings} if self.warnings else {}
        warned |= {"columns": self.kinds} if self.kinds else {}
        return {**totals, **warned, "files": [{"file": name, **vars(counts)} for name, counts in self.files.items()]}


class LearnJob:
    """Learning in progress, with the model file locked."""

    def __init__(
        self,
        session: Session,
        options: LearnOptions,
        drop: bool,
        again: bool,
        dialect: Dialect | None = None,
        given: str | None = None,
    ) -> None:
        self.session, self.options, self.drop, self.again = session, options, drop, again
        self.dialect, self.given = dialect, given
        self.report = LearnReport()
        self.keep_keys = False  # of all rows, in `last`
        self.last: LearnFile | None = None  # the file that was learned last
        check_kinds(options.column_kinds)
        if not session.new:
            options.check(session.model, session.columns)

    def learn(self, path: Path | str, on_rows: OnRows = lambda name, rows: None) -> FileCounts:
        """Learn a file, or standard input (-), or what is at an address. If it raises an error, the model is as before,
        with the files before."""
        started, before = time.monotonic(), self.session.model
        try:
            with naming_file(Path(path).name), local_file(path, self.given) as file:
                try:
                    counts = self._file(file, str(path) != STANDARD_INPUT, on_rows)
                except LabelKindChanged:  # labels that were integers are text: from the beginning, as text
                    self.session.restore(before)
                    counts = self._file(file, str(path) != STANDARD_INPUT, on_rows, as_text=True)
        except (InputError, NumericalError, FileError, MissingDependency):
            self.session.restore(before)
            raise
        finally:
            self.report.seconds += time.monotonic() - started
        self.report.files[str(path)] = counts
        return counts

    def _file(self, path: Path, waits: bool, on_rows: OnRows, as_text: bool = False) -> FileCounts:
        table = open_table(path, self.dialect, waits=waits, given=self.given)
        try:
            columns = self._columns(table)
            if as_text:
                columns = replace(columns, label_kind="text")
            rules = Rules(self.drop, self.again, self.options.ledger == "rows")
            work = LearnFile(self.session, table, columns, rules, on_rows, decided=not as_text)
            work.keys = [] if self.keep_keys else None
            work.learn()
        finally:
            table.close()
        self.report.warnings += work.new.warnings()
        self.report.kinds = dict(columns.kinds or {})
        self.last = work
        return work.counts

    def _columns(self, table: Table) -> Columns:
        """The meaning of the columns of the table for the model."""
        known, options = self.session.columns, self.options
        declared = by_entry(table, options.column_kinds)
        left_out = by_entry(table, dict.fromkeys(options.ignored, "ignored"))
        ignored = tuple(dict.fromkeys([*left_out, *(name for name, kind in declared.items() if kind == "ignored")]))
        if known is None:
            table.require(declared)
            found = Columns.from_table(table, options.label, options.targets, ignored)
            if options.label is not None:
                found = replace(found, separator=separator_of(table, options.label, options.separator))
            if self.session.new:
                return self._first_columns(table, found)
            return adopt_columns(found, self.session.model.learner, table)
        known = self._with_added(table, known.with_ignored(ignored), declared)
        known.check(table)
        return known

    def _with_added(self, table: Table, known: Columns, declared: Mapping[str, str]) -> Columns:
        """The columns with those that are declared as numbers and new; the learner had 0 in them so far."""
        met, model = {*known.features, *known.outputs, *known.ignored}, self.session.model
        new = {name: kind for name, kind in declared.items() if name not in met}
        if not new:
            return known
        others = [f"{name}:{kind}" for name, kind in new.items() if kind != "number"]
        if others:
            raise InputError(
                f"expected new columns of an existing model to be numbers, which were 0 in all rows before, got "
                f"{', '.join(others[:8])}; start a new model to learn them",
                arguments=("columns",),
            )
        table.require(new)
        known = known.with_added(tuple(new))
        pieces = model.pieces and {mark: with_new_columns(piece, list(new)) for mark, piece in model.pieces.items()}
        learner, notes = with_new_columns(model.learner, list(new)), {**model.notes, **known.to_notes()}
        self.session.model = replace(model, learner=learner, pieces=pieces, notes=notes)
        self.report.warnings += [
            f"the column {name!r} is new: it counts as 0 in all rows learned before" for name in new
        ]
        return known

    def _first_columns(self, table: Table, found: Columns) -> Columns:
        """The columns of the first table of a new model, by kind; the model gets an encoder unless all are numbers."""
        declared, options = by_entry(table, self.options.column_kinds), self.options
        guess = guess_kinds(table.sample(found.features), declared, table.path.name)
        kinds = {name: guess.kinds.get(name, "number") for name in found.features}
        left = tuple(name for name, kind in kinds.items() if kind == "ignored")
        self.report.warnings += guess.doubts(table.path.name)
        kinds = {name: kind for name, kind in kinds.items() if kind != "ignored"}
        if not kinds:
            why = {guess.reasons[name] for name in left if name in guess.reasons}
            raise InputError(
                f"expected {table.path.name} to have columns to learn from, got only {_few(left)}, left out: "
                f"{'; '.join(sorted(why)) or 'ignored'}; declare what they are",
                arguments=("columns",),
            )
        found = replace(found, features=tuple(kinds), ignored=(*found.ignored, *left))
        if all(kind == "number" for kind in kinds.values()) and not options.keeps_gaps():
            return found
        learner = options.with_encoder(self.session.model.learner, kinds)
        self.session.model = replace(self.session.model, learner=learner)
        return replace(found, kinds=kinds, gaps=options.keeps_gaps())


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (" …" if len(names) > 8 else "")


@contextmanager
def learn_session(
    model: str | Path,
    options: LearnOptions,
    drop: bool = False,
    again: bool = False,
    wait: float = WAIT,
    dialect: Dialect | None = None,
    given: str | None = None,
    every: float | None = None,
) -> Iterator[LearnJob]:
    """Learn into a model file, created if there is none; what was learned is on the disk when the block ends.

    `drop` leaves out rows with missing entries, `again` learns data that are in the ledger once more. `dialect` and
    `given` are the dialect of CSV files and the format of tables whose names do not tell. What is finished is written
    after `every` so many seconds, or by default as often as that is cheap.
    """
    if every is not None:
        check_number(every, "every")
    with open_session(model, options.new_model, wait) as session:
        session.every = every
        yield LearnJob(session, options, drop, again, dialect, given)


def adopt_columns(columns: Columns, learner: Any, table: Table) -> Columns:
    """The columns of a first table for a model that was fitted in Python."""
    known = vars(learner)
    regressor = type(learner).__name__ == "ContinualRegressor"
    if regressor == (columns.label is not None) or not columns.outputs:
        wanted = "targets" if regressor else "label"
        raise InputError(f"expected `{wanted}` with a {type(learner).__name__}", arguments=(wanted,))
    if "n_features_in_" not in known:
        return columns
    form = known.get("multilabel_")
    if form == "indicator" or (form is None and columns.separator is not None):
        raise InputError(
            f"expected a model that has learned {'sets of labels' if form else 'one label per row'}, as the table has "
            f"them, got one that was fitted in Python with {'an indicator' if form else 'others'}; continue in Python"
        )
    if form is not None:
        columns = replace(columns, separator=columns.separator or SEPARATOR)
    if "classes_" in known:
        columns = replace(columns, label_kind=kind_of_classes(known["classes_"], learning=True))
    if "feature_names_in_" in known:
        named = replace(columns, features=tuple(map(str, known["feature_names_in_"])))
        named = with_kinds(named, learner)
        named.check(table)
        return named
    check_feature_count(len(columns.features), learner, table)
    return columns


def by_entry(table: Table, kinds: Mapping[str, str]) -> dict[str, str]:
    """Kinds of columns, where a column of vectors stands for its entries: an embedding is as many numbers."""
    found: dict[str, str] = {}
    for name, kind in kinds.items():
        if name not in table.vectors or name in table.names:
            found[name] = kind
        elif kind in ("embedding", "number", "ignored"):
            every = {f"{name}{i}" for i in range(table.vectors[name])}
            every |= {f"{name}.{i}" for i in range(table.vectors[name])} & table.names
            entry = "ignored" if kind == "ignored" else "number"
            found |= {column: entry for column in table.columns if column in every}
        else:
            raise InputError(
                f"expected the column {name!r} of {table.path.name}, which has lists of numbers, to be an embedding or "
                f"ignored, got {kind}",
                arguments=("columns",),
            )
    return found


def with_new_columns(learner: Any, names: list[str]) -> Any:
    """The learner with further columns of numbers, which have been 0 in all rows so far."""
    return copy.copy(learner)._gain_columns(names)


def with_kinds(columns: Columns, learner: Any) -> Columns:
    """The columns with the kinds that an encoder of tables in the learner has fixed."""
    encoder = vars(learner).get("features_")
    encoding = getattr(encoder, "encoding_", None)
    if encoder is None or encoding is None:
        return columns
    if encoding.widths:
        raise InputError(
            f"expected a model of single numbers per column, got embeddings in {list(encoding.widths)[:8]}; use it in "
            f"Python, or start a model from files, where every entry of an embedding is a column"
        )
    return replace(columns, kinds=encoding.kinds, gaps=encoder.missing == "indicator")


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
