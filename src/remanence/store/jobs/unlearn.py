"""Unlearning rows from a model file, so that it is the model that never saw them.

    what is left = what training on the other rows gives                                        (U)   RLS, forget = 1

Every copy of the rows is removed from the learned files that can be read (sources.py). A file that was learned as a
whole leaves the ledger and can be learned again; a part of a file is noted as unlearned. A model that keeps the keys
of all rows needs no other file: it knows which rows it holds, and how often.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError, NumericalError
from remanence.hashing import ROW_KEY, hash_keys
from remanence.store.content.cutting import KnownPieces
from remanence.store.jobs.columns import Columns, Samples, ignore_name_warnings, samples
from remanence.store.jobs.holdings import (
    Holdings,
    Plan,
    apply_removal,
    lost_places,
    may_hold,
    plan_removal,
    resolve_trusted,
)
from remanence.store.jobs.learn import OnRows, naming_file
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.piecewise import rows_at, with_pieces
from remanence.store.jobs.session import Session, keeps_all, open_session, rows_of
from remanence.store.jobs.sources import (
    FoundPiece,
    as_available,
    known_pieces,
    learned_files,
    pieces_of,
)
from remanence.store.ledger import Entry, marks
from remanence.store.model_file import WAIT, ModelFile
from remanence.tables import Dialect, Table, expand_paths, open_table
from remanence.tables.encoding.chosen_rows import chosen_rows
from remanence.tables.hashing import raise_changed
from remanence.tables.paths import local_file

ReadKeys = Callable[[Sequence[Path], Columns], Mapping[Path, Array]]  # the keys of the rows of some files

AT_ONCE = 1000  # rows removed at once: a square matrix of this size is formed


@dataclass
class UnlearnCounts:
    """What became of the rows of one file."""

    unlearned: int = 0  # every copy counts
    skipped: int = 0  # removed before; where every row is known: not in the model


@dataclass
class UnlearnReport:
    """What became of the rows of every file."""

    files: dict[str, UnlearnCounts] = field(default_factory=dict)
    unsearched: dict[str, int] = field(default_factory=dict)  # pieces in force that could not be searched: their rows

    def total(self, what: str) -> int:
        """The sum over all files of "unlearned" or "skipped"."""
        return sum(getattr(counts, what) for counts in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        totals = {what: self.total(what) for what in ("unlearned", "skipped")}
        unsearched = [{"name": name, "rows": rows} for name, rows in self.unsearched.items()]
        files = [{"file": name, **vars(counts)} for name, counts in self.files.items()]
        return {**totals, "unsearched": unsearched, "files": files}


class UnlearnJob:
    """Unlearning in progress, with the model file locked."""

    def __init__(
        self,
        session: Session,
        sources: Sequence[Path | str],
        drop: bool,
        trust: bool,
        accept_loss: bool,
        where: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        given: str | None = None,
    ) -> None:
        self.session, self.drop, self.trust, self.accept_loss, self.given = session, drop, trust, accept_loss, given
        self.sources, self.where, self.dialect = [Path(source) for source in sources], dict(where or {}), dialect
        self.report = UnlearnReport()
        self.met = not self.where  # whether a row with the values asked for was met
        self.read_keys: ReadKeys = lambda files, columns: {}  # a cluster reads the files to search, if there is one
        self.keys: dict[Path, Array] = {}  # of the rows of the files that were searched

    def unlearn(self, path: Path | str, on_rows: OnRows = lambda name, rows: None) -> UnlearnCounts:
        """Remove every copy of the rows of a file, of standard input (-), or of what is at an address.

        If an error is raised, nothing has changed.
        """
        try:
            with local_file(path, self.given) as file:
                counts = self._file(file, on_rows)
        except Exception:
            self.met = True  # (this is what to tell)
            raise
        self.report.files[str(path)] = counts
        return counts

    def _file(self, path: Path, on_rows: OnRows) -> UnlearnCounts:
        table, columns = open_table(path, self.dialect, given=self.given), self.session.columns
        model = self.session.model
        if columns is None:
            raise InputError(
                "expected a model that has learned from files, got one that was fitted in Python; unlearn in Python too"
            )
        columns.check(table, predicting=True)
        table.require([*columns.outputs, *self.where])
        rows = Requested(table, columns, chosen_rows(table, self.where) if self.where else None)
        if rows.wanted is not None and not any(map(np.any, rows.wanted)):
            return UnlearnCounts()
        self.met = True
        if model.row_keys is not None and model.row_keys.every:
            return self._by_row(rows, table.path.name, on_rows)
        return self._by_piece(rows, table, columns, on_rows)

    def check_met(self) -> None:
        """Raise an InputError if no row of any file has the values asked for."""
        if self.report.files and not self.met:
            self.met = True  # (it is told once)
            shown = ", ".join(f"{name}={value}" for name, value in self.where.items())
            files = ", ".join(list(self.report.files)[:5])
            raise InputError(f"expected rows of {files} with {shown}, got none", arguments=("where",))

    def _by_row(self, rows: "Requested", name: str, on_rows: OnRows) -> UnlearnCounts:
        """Remove the rows that are in the model, as the keys of all rows tell."""
        model = self.session.model
        assert model.row_keys is not None
        keys, first = np.unique(rows.keys(), return_index=True)
        copies = model.row_keys.count(keys)
        skipped = int((rows.count() if len(keys) else 0) - np.isin(rows.keys(), keys[copies > 0], kind="sort").sum())
        if not copies.any():
            return UnlearnCounts(0, skipped)
        left = np.zeros(rows.count(), int)
        left[first] = copies
        removed = int(copies.sum())
        if removed == rows_of(model.learner) and keeps_all(model.learner):
            from sklearn.base import clone

            learner = clone(model.learner)
        else:
            learner, _ = without_rows(model.learner, rows.repeated(left), name, on_rows, self.accept_loss)
        mark = next(m for m in marks(hash_keys(rows.keys())) if model.ledger.last_action(m) is None)
        gone = model.row_keys.without_rows(keys.repeat(copies))
        ledger = model.ledger.with_entry(Entry(mark, name, removed, "unlearned"))
        self.session.commit(replace(model, learner=learner, ledger=ledger, row_keys=gone))
        return UnlearnCounts(removed, skipped)

    def _by_piece(self, rows: "Requested", table: Table, columns: Columns, on_rows: OnRows) -> UnlearnCounts:
        """Remove the rows from the learned pieces in which they are found."""
        model, name = self.session.model, table.path.name
        before, known = Holdings.of(model.ledger, model.notes), KnownPieces(model.ledger)
        whole = rows.all_keys()
        here = known_pieces(table, whole, columns, before, known)
        rows.check_missing(self.drop or any(before.held_marks(p.available.fingerprint) for p in here))
        requested = [as_available(rows.keys(), name)]
        files = self._files(table.path)
        self.keys |= self.read_keys([file for file in files if file not in self.keys], columns)
        found = [*here, *pieces_of(files, columns, before, known, self.keys, self.dialect)]
        inside = [] if self.where else [piece.available for piece in here]
        others = [piece.available for piece in found]
        held, missing = resolve_trusted(before, [*requested, *others])
        plan = plan_removal(held, requested, others, inside)
        self._check(held, plan, name, [] if self.trust else may_hold(held, plan, missing))
        trusted = [lost_places(plan, piece) if plan.lost.any() else [] for piece in requested]
        after = apply_removal(held, plan, requested, trusted, inside)
        if model.pieces is None:
            learner, removed = self._without(rows, plan, name, on_rows)
            left = replace(model, learner=learner, ledger=after.ledger)
        else:
            left, removed = self._without_in_pieces(after, found, plan, on_rows)
        if after != before:
            if model.row_keys is not None:
                times = plan.copies + np.where(plan.lost, plan.times, 0)
                left = replace(left, row_keys=model.row_keys.without_rows(plan.keys.repeat(times)))
            self.session.commit(replace(left, notes={**model.notes, **after.to_notes()}))
        unsearched = Counter[str]()
        for entry in plan.unsearched:
            unsearched[entry.name] += held.rows_in(entry.fingerprint)
        self.report.unsearched = dict(unsearched)
        return UnlearnCounts(removed, plan.rows(plan.is_out))

    def _without(self, rows: "Requested", plan: Plan, name: str, on_rows: OnRows) -> tuple[Any, int]:
        """The learner without the rows of the plan, and their number."""
        from sklearn.base import clone

        learner, found = self.session.model.learner, int(plan.copies.sum())
        if found == rows_of(learner) and not plan.lost.any() and keeps_all(learner):
            return clone(learner), found  # nothing is left: no arithmetic, no rounding
        where = np.searchsorted(plan.keys, rows.keys())
        times = plan.lost[where].astype(int)  # each as often as it was found, or is requested if it was not found
        first = np.unique(where, return_index=True)[1]
        times[first] += plan.copies[where[first]]
        return without_rows(learner, rows.repeated(times), name, on_rows, self.accept_loss)

    def _without_in_pieces(
        self, after: Holdings, at_hand: Iterable[FoundPiece], plan: Plan, on_rows: OnRows
    ) -> tuple[ModelFile, int]:
        """The model without the rows of the plan, each removed from the learner of its piece."""
        model = self.session.model
        if plan.lost.any():
            raise InputError(
                f"expected rows that are found in a learned file, as this model keeps a learner for every piece, but "
                f"{plan.rows(plan.lost)} are not; such a model cannot remove rows on trust"
            )
        pieces = dict(model.pieces or {})
        files = {mark: piece for piece in at_hand for mark in after.held_marks(piece.available.fingerprint)}
        for mark, places in plan.found.items():
            if after.ledger.contains(mark) and places:  # (a piece that is removed as a whole is just left out)
                parts = rows_at(files[mark].samples(), places)
                name = files[mark].available.name
                pieces[mark], _ = without_rows(pieces[mark], parts, name, on_rows, self.accept_loss)
        return with_pieces(model, after.ledger, pieces), int(plan.copies.sum())

    def _files(self, path: Path) -> list[Path]:
        """The files to search: those given as sources, and those with the name of an entry in the ledger."""
        own = [] if self.session.file is None else [self.session.file.path.parent]
        folders = (path.parent, *own, Path.cwd())
        found = [*self.sources, *learned_files(self.session.model.ledger, folders)]
        return [file for file in found if not file.exists() or not file.samefile(path)]

    def _check(self, held: Holdings, plan: Plan, name: str, trusted: Sequence[Any]) -> None:
        """Raise an InputError for rows that may not be in the model, or may have been removed already."""
        if trusted:
            raise InputError(
                f"expected to know which rows were removed, but {held.rows_loose()} rows were removed on trust as "
                f"{', '.join(dict.fromkeys(entry.name for entry in trusted))}, which was not found: rows of {name} "
                f"may be among them and would be removed twice; name that file among the sources, or train anew "
                f"without those rows, or use `trust` if you know that they are not",
                arguments=("sources", "trust"),
            )
        lost = plan.rows(plan.lost)
        if lost and not self.trust:
            away = f"; not found, so not searched: {_listed(held, plan)}" if plan.unsearched else ""
            raise InputError(
                f"expected rows that the model has learned, but {lost} row{'s' * (lost > 1)} of {name} "
                f"{'are' if lost > 1 else 'is'} in no learned file that was found{away}; name the files they were "
                f"learned from, or, if you know that they were, remove them on trust",
                arguments=("sources", "trust"),
            )


def _listed(held: Holdings, plan: Plan) -> str:
    shown = [f"{entry.name} ({held.rows_in(entry.fingerprint)} rows)" for entry in plan.unsearched[:5]]
    return ", ".join(shown) + (f" and {len(plan.unsearched) - 5} more" if len(plan.unsearched) > 5 else "")


class Requested:
    """The rows of a table that are to be removed: all of them, or those that `wanted` chooses in every piece."""

    def __init__(self, table: Table, columns: Columns, wanted: Sequence[Array] | None) -> None:
        self.table, self.columns, self.wanted = table, columns, wanted
        self._keys: Array | None = None

    def samples(self, every: bool = False) -> Iterator[Samples]:
        """The complete rows, block by block."""
        for k, piece in enumerate(self.table.pieces()):
            for part in samples(piece, self.columns, drop=True):
                yield part if every or self.wanted is None else part.only(self.wanted[k][part.places])

    def all_keys(self) -> Array:
        """The keys of all complete rows of the table."""
        return self.keys() if self.wanted is None else _keys_of(self.samples(every=True))

    def keys(self) -> Array:
        """The keys of the rows to remove, (n,)."""
        if self._keys is None:
            self._keys = _keys_of(self.samples())
        return self._keys

    def count(self) -> int:
        """How many rows there are."""
        return len(self.keys())

    def check_missing(self, drop: bool) -> None:
        """Raise an InputError for rows with missing entries, unless they are to be left out."""
        if not drop and self.wanted is None:
            for piece in self.table.pieces():
                for _ in samples(piece, self.columns, drop=False):
                    pass

    def repeated(self, times: Array) -> Iterator[Samples]:
        """The rows, each so many times, (n,)."""
        done = 0
        for part in self.samples():
            often, keys = times[done : done + len(part.X)], self.keys()[done : done + len(part.X)]
            done += len(part.X)
            if not np.array_equal(part.keys(), keys):
                raise_changed(self.table.path.name)
            X, y, places = part.X.repeat(often, axis=0), part.y.repeat(often, axis=0), part.places.repeat(often)
            yield Samples(X, y, places, added=part.added)


def _keys_of(parts: Iterable[Samples]) -> Array:
    return np.concatenate([np.empty(0, f"S{ROW_KEY}"), *(part.keys() for part in parts)])


def without_rows(
    learner: Any, parts: Iterable[Samples], name: str, on_rows: OnRows, accept_loss: bool = False
) -> tuple[Any, int]:
    """The learner that never saw these rows, and their number; the given one is not changed."""
    from sklearn.base import clone

    left, removed = copy.copy(learner), 0  # (unlearning replaces the memory and never writes to it)
    for part in parts:
        for i in range(0, len(part.X), AT_ONCE):
            X, y = part.X[i : i + AT_ONCE], part.y[i : i + AT_ONCE]
            if rows_of(left) < len(X):
                raise InputError(f"expected at most as many rows in {name} as the model has learned, got more")
            try:
                with ignore_name_warnings(), naming_file(name):
                    left.unlearn(X, y, accept_loss=accept_loss)
            except NumericalError as problem:
                raise NumericalError(
                    f"{problem}; models that keep a learner per piece lose nothing", arguments=("accept_loss", "undo")
                ) from None
            removed += len(X)
            on_rows(name, len(X))
    return (clone(left) if not rows_of(left) else left), removed


@contextmanager
def unlearn_session(
    model: str | Path,
    label: str | None = None,
    sources: Iterable[str | Path] = (),
    drop: bool = False,
    trust: bool = False,
    accept_loss: bool = False,
    wait: float = WAIT,
    where: Mapping[str, str] | None = None,
    dialect: Dialect | None = None,
    given: str | None = None,
) -> Iterator[UnlearnJob]:
    """Unlearn rows from a model file; the rows are off the disk when the block ends.

    `label` must be that of the model. `sources` are learned files in which rows are searched, beside those that have
    the name of a ledger entry; `trust` removes rows that are not found, unless arithmetic shows that they cannot have
    been learned; `accept_loss` continues where rounding leaves fewer digits than promised. `where` chooses the rows
    that have these values in these columns. `dialect` and `given` are the dialect of CSV files and the format of tables
    whose names do not tell.
    """
    files = expand_paths(sources)
    with open_session(model, wait=wait) as session:
        LearnOptions(label).check(session.model, session.columns)
        job = UnlearnJob(session, files, drop, trust, accept_loss, where, dialect, given)
        yield job
        job.check_met()
