"""Changing a model file: pieces of data go in or out one by one, each with its entry in the ledger.

The model in memory is always one between two pieces. It is written when writing is cheap compared with the time since
the last write, before an error is raised, and at the end. Model and ledger are in the same atomic write, so that a
process that is killed at any moment leaves a file that holds some pieces wholly and the others not at all.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError
from remanence.estimators.linear_predictor import LinearClassifier, LinearPredictor
from remanence.hashing import content_fingerprint
from remanence.store.format.metadata import columns_problem
from remanence.store.jobs.columns import Columns
from remanence.store.ledger import Entry, Ledger
from remanence.store.model_file import WAIT, Locked, ModelFile, locked
from remanence.tables.formats import format_of

WRITE_RATIO = 5.0  # write again after this many times the duration of the last write
LEARNED_IN_PYTHON = "taught in Python"  # ledger entry of what a model knew before it had a ledger (a name in files)
LARGEST_BATCH = 1 << 22  # numbers passed to a learner at once


@dataclass
class Session:
    """The model as it is now, and the locked file it is written to; without a file it is only in memory."""

    file: Locked | None
    model: ModelFile
    new: bool
    unsaved: bool = False
    saved: float = 0.0  # time of the last write
    write_seconds: float = 0.0  # how long it took
    written: ModelFile | None = None  # what was written last, if anything
    every: float | None = None  # seconds between two writes; None writes where that is cheap

    @property
    def columns(self) -> Columns | None:
        """The meaning of the columns of its tables; None if it has never learned from tables."""
        return Columns.from_notes(self.model.notes)

    def commit(self, model: ModelFile) -> None:
        """Replace the model by one that has a piece more or less.

        Pending rows are folded in whether the model is written or not, so that numbers do not depend on when it is.
        """
        model.learner.settled()
        self.model, self.unsaved = model, True
        pause = WRITE_RATIO * self.write_seconds if self.every is None else self.every
        if self.file is not None and time.monotonic() - self.saved >= pause:
            self.save()

    def restore(self, model: ModelFile) -> None:
        """Go back to a model that was in force before, also on the disk."""
        self.model, self.unsaved = model, self.written is not None and self.written is not model
        if self.file is not None and self.new and self.unsaved and not len(model.ledger):  # it did not exist then
            self.file.path.unlink(missing_ok=True)
            self.written, self.unsaved = None, False

    def save(self) -> None:
        """Write the model unless it is written already."""
        if self.unsaved and self.file is not None:
            started = time.monotonic()
            self.file.write(self.model)
            self.written = self.model
            self.saved = time.monotonic()
            self.write_seconds, self.unsaved = self.saved - started, False


@contextmanager
def open_session(
    path: str | Path, create: Callable[[], ModelFile] | None = None, wait: float = WAIT
) -> Iterator[Session]:
    """Lock a model file and change it; `create` makes the model if there is no file yet."""
    path = Path(path)
    if format_of(path) is not None and not path.is_file():
        raise InputError(f"expected the name of a model file first, got {path}, which has the name of a data file")
    with locked(path, wait) as file:
        new = create is not None and not file.exists()
        model = create() if new and create is not None else with_first_entry(file.read(), path)
        session = Session(file, model, new)
        try:
            yield session
        finally:
            session.save()  # whole pieces only, whatever happened to the next one


def require_estimator(model: ModelFile, path: str | Path) -> None:
    """Raise an error unless the model can learn from tables and its notes on columns fit its learner."""
    learner = model.learner
    if not isinstance(learner, LinearPredictor):
        raise InputError(
            f"expected a ContinualClassifier or a ContinualRegressor in {path}, got {type(learner).__name__}; "
            f"use it in Python: rm.load(path)"
        )
    wrong = columns_problem(model.notes, learner)
    if wrong:
        raise FileError(f"cannot use {path}: its notes make no sense: {wrong}")


def is_classifier(learner: Any) -> bool:
    """Whether an estimator predicts classes."""
    return isinstance(learner, LinearClassifier)


def rows_of(learner: Any) -> int:
    """The number of rows a learner has learned."""
    return int(vars(learner).get("n_seen_", 0))


def keeps_all(learner: Any) -> bool:
    """Whether a learner is a sum over equally weighted rows, so that rows can be removed and models merged."""
    from remanence.methods import RLS

    method = RLS() if learner.method is None else learner.method
    return isinstance(method, RLS) and method.forget == 1


def with_first_entry(model: ModelFile, path: str | Path) -> ModelFile:
    """The model with a ledger entry for what it learned in Python, if it has no ledger."""
    require_estimator(model, path)
    rows = rows_of(model.learner)
    if len(model.ledger) or not rows:
        return model
    mark = content_fingerprint(model.learner.coef_, model.learner.intercept_)
    return replace(model, ledger=Ledger((Entry(mark, LEARNED_IN_PYTHON, rows),)))


def copy_for_trial(learner: Any) -> Any:
    """A copy that can learn without changing the original: learned attributes are replaced, never written to."""
    return copy.copy(learner)


def batch_size(learner: Any, features: int) -> int:
    """Rows to pass to a learner at once, so that their features take little memory compared with a wide model."""
    known = vars(learner).get("features_", learner.features)
    width = features if known is None else int(getattr(known, "width", None) or features)
    return max(256, LARGEST_BATCH // max(width, 1))
