"""Learn tables into a model file with a cluster: every row exactly once, and the same bits for any number of workers.

    workers   read some files, and learn the rows that the ledger at the start does not have, into a model of their own
    here      merge these models in the order of the files, each with its entries in the ledger                    (W)

Workers also send the key of every row, 16 bytes. With them the decisions on each piece are made once more here, with
the ledger as it is then. Where they differ, because another file of the same run holds the same rows, the file is
learned again with that ledger. So what is learned does not depend on which worker did what and when, and is what one
machine learns.

The first file of a new model is learned here, because it decides what the columns mean and how features are scaled.
"""

import os
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.labels import check_new_labels
from remanence.methods import RLS
from remanence.methods.ridge.left_out_errors import LOO
from remanence.scale.jobs.cluster import in_order, result_of
from remanence.scale.jobs.learn_worker import PROBLEMS, FilesLearned, LearnBase, begin, blank_of, learn_paths
from remanence.scale.learning import check_mergeable
from remanence.scale.travel import unpack
from remanence.scale.tree import neighbours
from remanence.store.content.cutting import piece_size
from remanence.store.content.new_pieces import NewPieces, Rules
from remanence.store.jobs.learn import LearnJob, OnRows, naming_file
from remanence.store.jobs.piecewise import merged
from remanence.store.jobs.session import Session, rows_of
from remanence.store.model_file import ModelFile
from remanence.tables import EmptyTable
from remanence.tables.paths import STANDARD_INPUT, is_address

MANY = 256  # files, from which on several are learned at once
MOST_FILES = 16  # of them
ROOT_BYTES = 1 << 26  # bytes of models that may wait on the workers of a thread


def learn_files(
    job: LearnJob,
    paths: Sequence[Path | str],
    client: Any,
    on_rows: OnRows = lambda name, rows: None,
    on_files: Callable[[int], None] = lambda count: None,
) -> None:
    """Learn files with a cluster; if one raises an error, the model has those before it.

    `on_files` is called with the number of files that were finished.
    """
    _check(job, paths)
    started, left = time.monotonic(), list(paths)
    try:
        while left and _undecided(job):
            _learn_here(job, left.pop(0), on_rows, skip=len(paths) > 1)
            on_files(1)
        _Learning(job, client, on_rows, on_files, skip=len(paths) > 1).learn(left)
    finally:
        job.report.seconds += time.monotonic() - started


def _check(job: LearnJob, paths: Sequence[Path | str]) -> None:
    learner = job.session.model.learner
    check_mergeable(learner)
    method = RLS() if learner.method is None else learner.method
    if isinstance(method, RLS) and method.ridge in LOO:
        raise InputError(
            f'expected a ridge that does not depend on the order of the rows with a cluster, a number or "auto", got '
            f"{method.ridge!r}",
            arguments=("ridge",),
        )
    if job.session.model.pieces is not None:
        raise InputError(
            "expected a model without a learner per piece, whose pieces are learned here, got one; learn without a "
            "cluster",
            arguments=("undo",),
        )
    if STANDARD_INPUT in map(str, paths):
        raise InputError("expected files that workers can read, got standard input (-); write it to a file first")


def _undecided(job: LearnJob) -> bool:
    """Whether the next file decides what columns and labels are, or how features are scaled, or adds columns."""
    columns = job.session.columns
    if columns is None or not rows_of(job.session.model.learner):
        return True
    met = {*columns.features, *columns.outputs, *columns.ignored}
    return (columns.label is not None and columns.label_kind is None) or not met.issuperset(job.options.column_kinds)


def _learn_here(job: LearnJob, path: Path | str, on_rows: OnRows, skip: bool) -> None:
    """Learn a file in this process; it is in the model file as a whole or not at all."""
    session = job.session
    trial = LearnJob(
        Session(None, session.model, session.new), job.options, job.drop, job.again, job.dialect, job.given
    )
    try:
        job.report.files[str(path)] = trial.learn(path, on_rows)
    except EmptyTable as problem:
        _tell_empty(problem, skip)
        return
    job.report.warnings += trial.report.warnings
    job.report.kinds = trial.report.kinds
    if trial.session.unsaved:
        session.commit(trial.session.model)


def _tell_empty(problem: EmptyTable | str, skip: bool) -> None:
    if not skip and isinstance(problem, EmptyTable):
        raise problem
    warnings.warn(f"{problem} (skipped)", UserWarning, stacklevel=3)


class _Learning:
    """Files on their way through the workers into the model of a job."""

    def __init__(
        self, job: LearnJob, client: Any, on_rows: OnRows, on_files: Callable[[int], None], skip: bool
    ) -> None:
        self.job, self.client, self.on_rows, self.on_files, self.skip = job, client, on_rows, on_files, skip
        self.name = f"remanence-{uuid.uuid4().hex[:12]}"
        self.again = 0

    def learn(self, paths: Sequence[Path | str]) -> None:
        if not paths:
            return
        groups = neighbours(list(paths), group_size(len(paths)))
        base = self._sent(self.job.session.model)
        width = len(self.job.session.columns.features) if self.job.session.columns is not None else 0
        more = None if 8 * width * width < ROOT_BYTES else 1

        def submit(k: int) -> Any:
            return self._submit(base, groups[k], f"learn-{k}")

        found = in_order(self.client, len(groups), submit, lambda k: str(groups[k][0]), more)
        for group, files in zip(groups, found, strict=True):
            self._take(group, files)
            self.on_files(len(group))

    def _sent(self, model: ModelFile) -> Any:
        """What workers begin with, as a task: it is computed again where a worker is lost."""
        job = self.job
        blank = replace(model, learner=blank_of(model.learner))
        rules = Rules(job.drop, job.again, job.options.ledger == "rows")
        base = LearnBase(blank, job.options, rules, job.dialect, job.given)
        self.again += 1
        return self.client.submit(begin, base, key=f"{self.name}-base-{self.again}", pure=False)

    def _submit(self, base: Any, group: Sequence[Path | str], name: str) -> Any:
        paths = [str(path) if is_address(path) else os.path.abspath(path) for path in group]  # noqa: PTH100
        return self.client.submit(learn_paths, base, paths, self.skip, key=f"{self.name}-{name}", pure=False)

    def _take(self, group: Sequence[Path | str], found: FilesLearned) -> None:
        """Take what was learned from some files; where that is not what one machine would learn, again, one by one."""
        if self._accept(group, found):
            return
        for k, path in enumerate(group):
            base = self._sent(self.job.session.model)
            once_more = self._submit(base, [path], f"again-{self.again}-{k}")
            found = result_of(once_more, self.client, str(path))
            if found.failed is not None:
                raise found.failed
            if not self._accept([path], found):
                raise InputError(f"expected {PurePath(path).name} to stay as it is while it is learned, but it changed")

    def _accept(self, group: Sequence[Path | str], found: FilesLearned) -> bool:
        """Put what was learned into the model, if all of it is new there; False if some of it is not."""
        if found.failed is not None:
            return False
        job, model = self.job, self.job.session.model
        columns, counts = job.session.columns, {}
        assert columns is not None
        rules = Rules(job.drop, job.again, job.options.ledger == "rows")
        told, size = list[str](), piece_size(len(columns.features), separate=False)
        trial = model
        for path, record in zip(group, found.records, strict=True):
            book = NewPieces(trial, rules, size, PurePath(path).name)
            try:
                _decide(book, record.keys)
            except InputError:
                if len(group) > 1:
                    return False
                raise
            if tuple(book.added) != record.added:
                return False
            book.counts.skipped += record.listed
            book.counts.dropped = record.dropped
            trial = replace(trial, ledger=book.held.ledger, row_keys=book.rows)
            counts[path] = book
            told += book.warnings()
        if found.learned is not None:
            learner, name = unpack(model.learner, found.learned), PurePath(group[0]).name
            try:
                with naming_file(name):
                    known, labels = (vars(e).get("classes_", np.empty(0)) for e in (model.learner, learner))
                    check_new_labels(labels, known, job.drop, name)
                    trial = replace(trial, learner=merged(model.learner, learner))
            except PROBLEMS:
                if len(group) > 1:
                    return False
                raise
        for path, record in zip(group, found.records, strict=True):
            for text in record.warnings:
                warnings.warn(text, UserWarning, stacklevel=2)
            if not record.empty:
                job.report.files[str(path)] = counts[path].counts
            self.on_rows(PurePath(path).name, counts[path].counts.learned)
        job.report.warnings += told
        job.report.kinds = dict(columns.kinds or {})
        if found.learned is not None:
            job.session.commit(replace(trial, notes={**model.notes, **found.notes}))
        return True


def group_size(files: int) -> int:
    """How many files a task learns, by their number alone: of very many, several at once."""
    return max(1, min(MOST_FILES, files // MANY))


def _decide(book: NewPieces, keys: Array) -> None:
    """Decide on every piece of a file by the keys of its rows, as if it were learned here."""
    for span in book.spans(keys, ended=True):
        piece = book.choose(span, keys[span.first : span.first + span.rows])
        if piece is not None:
            book.check_familiar(piece)
            book.add(piece)
    book.check_copies()
