"""Unlearning rows from a model file, so that it is the model that never saw them.

    what is left = what training on the other rows gives                                        (U)   RLS, forget = 1

Every copy of the rows is removed from the learned files that can be read (sources.py). A file that was learned as a
whole leaves the ledger and can be learned again; a part of a file is noted as unlearned.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from remanence.errors import InputError, NumericalError
from remanence.store.jobs.columns import Columns, Samples, samples
from remanence.store.jobs.holdings import (
    Holdings,
    Plan,
    apply_removal,
    lost_places,
    may_hold,
    plan_removal,
    resolve_trusted,
)
from remanence.store.jobs.learn import OnRows, ignore_name_warnings, naming_file
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.piecewise import rows_at, with_pieces
from remanence.store.jobs.session import Session, keeps_all, open_session, rows_of
from remanence.store.jobs.sources import available, keys, learned_files, pieces_of
from remanence.store.model_file import WAIT, ModelFile
from remanence.tables import Piece, expand_paths, open_table

AT_ONCE = 1000  # rows removed at once: a square matrix of this size is formed


@dataclass
class UnlearnCounts:
    """What became of the rows of one file."""

    unlearned: int = 0  # every copy counts
    skipped: int = 0  # removed before


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

    def __init__(self, session: Session, sources: Sequence[Path], drop: bool, trust: bool, accept_loss: bool) -> None:
        self.session, self.sources, self.drop, self.trust, self.accept_loss = session, sources, drop, trust, accept_loss
        self.report = UnlearnReport()

    def unlearn(self, path: Path | str, on_rows: OnRows = lambda name, rows: None) -> UnlearnCounts:
        """Remove every copy of the rows of a file; if an error is raised, nothing has changed."""
        table, columns, model = open_table(path), self.session.columns, self.session.model
        if columns is None:
            raise InputError(
                "expected a model that has learned from files, got one that was fitted in Python; unlearn in Python too"
            )
        columns.check(table, predicting=True)
        table.require(columns.outputs)
        before = Holdings.of(model.ledger, model.notes)
        pieces = [(p, self.drop or bool(before.held_marks(p.fingerprint()))) for p in table.pieces()]
        requested = [available(piece, columns, drop) for piece, drop in pieces]
        found = list(pieces_of(self._files(table.path)))
        others = [available(piece, columns, True) for piece in found]
        held, missing = resolve_trusted(before, [*requested, *others])
        plan = plan_removal(held, requested, others)
        self._check(held, plan, table.path.name, [] if self.trust else may_hold(held, plan, missing))
        trusted = [lost_places(plan, piece) if plan.lost.any() else [] for piece in requested]
        after = apply_removal(held, plan, requested, trusted)
        if model.pieces is None:
            learner, removed = self._without(pieces, columns, plan, table.path.name, on_rows)
            left = replace(model, learner=learner, ledger=after.ledger)
        else:
            left, removed = self._without_in_pieces(after, [*(p for p, _ in pieces), *found], columns, plan, on_rows)
        if after != before:
            self.session.commit(replace(left, notes={**model.notes, **after.to_notes()}))
        unsearched = Counter[str]()
        for entry in plan.unsearched:
            unsearched[entry.name] += held.rows_in(entry.fingerprint)
        self.report.unsearched = dict(unsearched)
        self.report.files[str(path)] = UnlearnCounts(removed, plan.rows(plan.is_out))
        return self.report.files[str(path)]

    def _without(
        self, pieces: Sequence[tuple[Piece, bool]], columns: Columns, plan: Plan, name: str, on_rows: OnRows
    ) -> tuple[Any, int]:
        """The learner without the rows of the plan, and their number."""
        from sklearn.base import clone

        learner, found = self.session.model.learner, int(plan.copies.sum())
        if found == rows_of(learner) and not plan.lost.any() and keeps_all(learner):
            return clone(learner), found  # nothing is left: no arithmetic, no rounding
        return without_rows(learner, _rows_to_remove(pieces, columns, plan), name, on_rows, self.accept_loss)

    def _without_in_pieces(
        self, after: Holdings, at_hand: Iterable[Piece], columns: Columns, plan: Plan, on_rows: OnRows
    ) -> tuple[ModelFile, int]:
        """The model without the rows of the plan, each removed from the learner of its piece."""
        model = self.session.model
        if plan.lost.any():
            raise InputError(
                f"expected rows that are found in a learned file, as this model keeps a learner for every piece, but "
                f"{plan.rows(plan.lost)} are not; such a model cannot remove rows on trust"
            )
        pieces = dict(model.pieces or {})
        files = {mark: piece for piece in at_hand for mark in after.held_marks(piece.fingerprint())}
        for mark, places in plan.found.items():
            if after.ledger.contains(mark) and places:  # (a piece that is removed as a whole is just left out)
                parts = rows_at(samples(files[mark], columns, drop=True), places)
                pieces[mark], _ = without_rows(pieces[mark], parts, files[mark].name, on_rows, self.accept_loss)
        return with_pieces(model, after.ledger, pieces), int(plan.copies.sum())

    def _files(self, path: Path) -> list[Path]:
        """The files to search: those given as sources, and those with the name of an entry in the ledger."""
        folders = (path.parent, self.session.file.path.parent, Path.cwd())
        return [*self.sources, *learned_files(self.session.model.ledger, folders)]

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


def _rows_to_remove(pieces: Iterable[tuple[Piece, bool]], columns: Columns, plan: Plan) -> Iterator[Samples]:
    """The rows to remove, each as often as it was found, or as often as it is requested if it was not found."""
    left = plan.copies.copy()
    for piece, drop in pieces:
        for part in samples(piece, columns, drop):
            where = np.searchsorted(plan.keys, keys(part))
            times = plan.lost[where].astype(int)
            first = np.unique(where, return_index=True)[1]
            times[first] += left[where[first]]
            left[where[first]] = 0
            yield Samples(part.X.repeat(times, axis=0), part.y.repeat(times, axis=0), part.places.repeat(times), 0)


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
) -> Iterator[UnlearnJob]:
    """Unlearn rows from a model file; the rows are off the disk when the block ends.

    `label` must be that of the model. `sources` are learned files in which rows are searched, beside those that have
    the name of a ledger entry; `trust` removes rows that are not found, unless arithmetic shows that they cannot have
    been learned; `accept_loss` continues where rounding leaves fewer digits than promised.
    """
    files = expand_paths(sources)
    with open_session(model, wait=wait) as session:
        LearnOptions(label).check(session.model, session.columns)
        yield UnlearnJob(session, files, drop, trust, accept_loss)
