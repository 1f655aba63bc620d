"""The part of learning that workers do: read files, and learn what the ledger at the start does not have."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError, MissingDependency, NumericalError
from remanence.estimators import RandomFeatures
from remanence.hashing import ROW_KEY
from remanence.scale.naming import as_task
from remanence.scale.travel import LearnedPart, blank, pack
from remanence.store.content.new_pieces import Rules
from remanence.store.jobs.learn import LearnJob
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.session import Session, rows_of
from remanence.store.model_file import ModelFile
from remanence.tables import Dialect, EmptyTable

PROBLEMS = (InputError, NumericalError, FileError, MissingDependency)


@dataclass(frozen=True)
class LearnBase:
    """What workers begin with: a model that has learned nothing, with the ledger at the start, and the options."""

    model: ModelFile
    options: LearnOptions
    rules: Rules
    dialect: Dialect | None
    given: str | None


@dataclass(frozen=True)
class FileRecord:
    """What a worker tells of a file that it has learned."""

    keys: Array  # (n,) of its rows, in their order
    added: tuple[str, ...]  # fingerprints of the pieces that were learned
    listed: int = 0  # rows in the ledger of an earlier version
    dropped: int = 0
    warnings: tuple[str, ...] = ()
    empty: bool = False


@dataclass(frozen=True)
class FilesLearned:
    """What a worker has learned from some files, up to the first that failed."""

    learned: LearnedPart | None
    records: tuple[FileRecord, ...]
    notes: dict[str, Any]  # of the model file, those that changed
    failed: Exception | None = None


def blank_of(learner: Any) -> Any:
    """A learner with the settings and the scale of features of this one, which has learned nothing."""
    empty = blank(learner, credit=False)
    if isinstance(learner.features, RandomFeatures):
        return empty._with({**vars(empty), "features": learner.features_})
    return empty


def begin(base: LearnBase) -> LearnBase:
    """On a worker: what it begins with, as the result of a task, which can be computed again."""
    return base


def learn_paths(base: LearnBase, paths: Sequence[str], skip: bool) -> FilesLearned:
    """On a worker: learn files, one after the other, into a model of their own."""
    session = Session(None, base.model, new=False)
    job = LearnJob(session, base.options, base.rules.drop, base.rules.again, base.dialect, base.given)
    job.keep_keys = True
    records = list[FileRecord]()
    failed: Exception | None = None
    with as_task():
        for path in paths:
            try:
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    job.learn(path)
                records.append(_record(job, [str(w.message) for w in told]))
            except EmptyTable as problem:
                if not skip:
                    failed = problem
                    break
                records.append(
                    FileRecord(np.empty(0, f"S{ROW_KEY}"), (), warnings=(f"{problem} (skipped)",), empty=True)
                )
            except PROBLEMS as problem:
                failed = problem
                break
    model, before = session.model, base.model.notes
    changed = {name: v for name, v in model.notes.items() if name not in before or before[name] != v}
    learned = pack(model.learner) if rows_of(model.learner) else None
    return FilesLearned(learned, tuple(records), changed, failed)


def _record(job: LearnJob, told: Sequence[str]) -> FileRecord:
    work = job.last
    assert work is not None and work.keys is not None
    keys = np.concatenate([np.empty(0, f"S{ROW_KEY}"), *work.keys])
    return FileRecord(keys, tuple(work.new.added), work.listed, work.counts.dropped, tuple(told))
