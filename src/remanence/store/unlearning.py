"""Taking rows out of a model file, so that it is the model that never saw them.

    what is left = what training on the other rows gives                                        (U)   RLS, forget = 1

Rows go out that are known to be in: a whole piece of the ledger, or rows found in such pieces (sources.py). A whole
piece leaves the ledger and can be learned again; a part is noted as unlearned.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.store.columns import Columns, Samples, samples
from remanence.store.ledger import Entry
from remanence.store.model_file import WAIT
from remanence.store.sources import Places, files_at_hand, find_rows, last_out, places_out
from remanence.store.teaching import Noticed, naming_data, without_names
from remanence.store.wishes import Wishes
from remanence.store.work import Work, marks, rows_of, working
from remanence.streams.tables import Piece, expand_paths, open_table

AT_ONCE = 1000  # rows taken out together: a square of this many numbers is formed


@dataclass
class Removed:
    """What became of the rows of one file."""

    unlearned: int = 0
    skipped: int = 0  # out already


@dataclass
class RemovalReport:
    """What became of the rows of every file."""

    files: dict[str, Removed] = field(default_factory=dict)

    def total(self, what: str) -> int:
        return sum(getattr(counts, what) for counts in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        totals = {what: self.total(what) for what in ("unlearned", "skipped")}
        return {**totals, "files": [{"file": name, **vars(counts)} for name, counts in self.files.items()]}


class Removal:
    """Unlearning in progress; the model file is ours alone until it is over."""

    def __init__(self, work: Work, sources: Sequence[Path], drop: bool, trust: bool) -> None:
        self.work, self.sources, self.drop, self.trust = work, sources, drop, trust
        self.report = RemovalReport()

    def unlearn(self, path: Path | str, noticed: Noticed = lambda name, rows: None) -> Removed:
        """Take the rows of a file out; if that is refused, the model is as before the piece that was."""
        counts = Removed()
        table = open_table(path)
        columns = self.work.columns
        if columns is None:
            raise InputError(
                "expected a model that was taught by remanence learn, got one from Python; unlearn in Python too"
            )
        columns.check(table, asking=True)
        table.require(columns.answers)
        for piece in table.pieces():
            if piece.fingerprint() in self.work.model.ledger.in_force():
                self._whole(piece, columns, counts, noticed)
            else:
                self._part(piece, columns, counts, noticed)
        self.report.files[str(path)] = counts
        return counts

    def _whole(self, piece: Piece, columns: Columns, counts: Removed, noticed: Noticed) -> None:
        """A piece that was learned, as often as it was, but for rows that are out already."""
        model = self.work.model
        held, out = model.ledger.in_force(), places_out(model.notes)
        learner, ledger = model.learner, model.ledger
        for mark in list(takewhile(held.__contains__, marks(piece.fingerprint()))):
            gone = np.array(out.pop(mark, []), int)
            parts = (part_without(part, gone) for part in samples(piece, columns, drop=True))
            learner, removed = without(learner, parts, piece.name, noticed)
            ledger = ledger.with_entry(Entry(mark, held[mark].name, removed, "unlearned"))
            counts.unlearned += removed
        self.work.put(replace(model, learner=learner, ledger=ledger, notes={**model.notes, "out": out}))

    def _part(self, piece: Piece, columns: Columns, counts: Removed, noticed: Noticed) -> None:
        """Rows that stand in pieces which were learned."""
        model, fingerprint = self.work.model, piece.fingerprint()
        out = places_out(model.notes)
        folders = (piece.path.parent, self.work.file.path.parent, Path.cwd())
        files = dict.fromkeys([*self.sources, *files_at_hand(model.ledger, folders)])
        found, lost = find_rows(piece, columns, self.drop, model.ledger, out, files)
        before = last_out(model.ledger, fingerprint)
        if lost and before >= 0:
            counts.skipped += model.ledger.entries[before].rows
            return
        if lost and not self.trust:
            raise InputError(
                f"expected rows that the model has learned, got {piece.name}, which is not in its ledger, and {lost} "
                f"of its rows are not in any learned file at hand; name the files they were learned from with --from, "
                f"or, if you know that they were, rely on arithmetic alone with --trust"
            )
        learner, removed = without(model.learner, samples(piece, columns, self.drop), piece.name, noticed)
        mark = next(mark for mark in marks(fingerprint) if model.ledger.last_action(mark) is None)
        ledger = model.ledger.with_entry(Entry(mark, piece.name, removed, "unlearned"))
        notes = {**model.notes, "out": out if lost else joined(out, found)}
        self.work.put(replace(model, learner=learner, ledger=ledger, notes=notes))
        counts.unlearned += removed


def without(learner: Any, parts: Iterable[Samples], name: str, noticed: Noticed) -> tuple[Any, int]:
    """The learner that never saw these rows, and how many they are; the first one is as it was."""
    from sklearn.base import clone

    left, removed = copy.copy(learner), 0  # (taking out is pure: the memory itself is never written to)
    for part in parts:
        for i in range(0, len(part.X), AT_ONCE):
            X, y = part.X[i : i + AT_ONCE], part.y[i : i + AT_ONCE]
            if rows_of(left) < len(X):
                raise InputError(f"expected at most as many rows in {name} as the model has learned, got more")
            with without_names(), naming_data(name):
                left.unlearn(X, y)
            removed += len(X)
            noticed(name, len(X))
    return (clone(left) if not rows_of(left) else left), removed


def part_without(part: Samples, gone: Any) -> Samples:
    """The rows that do not stand at the places which are gone."""
    kept = ~np.isin(part.places, gone)
    return Samples(part.X[kept], part.y[kept], part.places[kept], part.missing)


def joined(out: Places, found: Places) -> Places:
    return {mark: sorted([*out.get(mark, []), *found.get(mark, [])]) for mark in {**out, **found}}


@contextmanager
def removal(
    model: str | Path,
    wishes: Wishes | None = None,
    sources: Iterable[str | Path] = (),
    drop: bool = False,
    trust: bool = False,
    wait: float = WAIT,
) -> Iterator[Removal]:
    """Take rows out of a model file; what went out is off the disk when the block ends.

    `sources` are learned files in which parts are looked for, beside those of known names that are at hand; `trust`
    takes rows out that are not found, unless arithmetic shows that they cannot have been in.
    """
    files = expand_paths(sources)
    with working(model, wait=wait) as work:
        if wishes is not None:
            wishes.check(work.model.learner, work.columns)
        yield Removal(work, files, drop, trust)


def unlearn_tables(
    model: str | Path,
    data: Iterable[str | Path],
    sources: Iterable[str | Path] = (),
    drop: bool = False,
    trust: bool = False,
) -> RemovalReport:
    """Take the rows of all tables that names and patterns stand for out of a model file."""
    paths = expand_paths(data)
    with removal(model, None, sources, drop, trust) as going:
        for path in paths:
            going.unlearn(path)
    return going.report
