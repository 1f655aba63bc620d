"""A model file under work: pieces of data go in or out one by one, each with its entry in the ledger.

What is in memory is always a model between two pieces. It is written when writing is cheap beside the time since the
last write, before anything is refused, and at the end; memory and ledger are in the same write, so that whoever is
killed at any moment finds a file that holds some pieces wholly and the others not at all.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError
from remanence.store.format.metadata import columns_problem
from remanence.store.jobs.columns import Columns
from remanence.store.ledger import Entry, Ledger, content_fingerprint
from remanence.store.model_file import WAIT, Locked, ModelFile, locked
from remanence.tables import FORMATS

WRITE_RATIO = 5.0  # the time since the last write, in units of how long that one took, from which on to write again
LEARNED_IN_PYTHON = "taught in Python"  # the name of what a model knew before it had a ledger
LARGEST_BATCH = 1 << 22  # numbers handed to a learner at once


@dataclass
class Session:
    """The model as it is now, and the file it is written to."""

    file: Locked
    model: ModelFile
    new: bool
    unsaved: bool = False
    saved: float = 0.0  # when it was written last
    write_seconds: float = 0.0  # seconds that writing took

    @property
    def columns(self) -> Columns | None:
        return Columns.from_notes(self.model.notes)

    def commit(self, model: ModelFile) -> None:
        """Go on with a model in which one more piece is done.

        It is settled whether it is written or not, so that the moments of writing do not show in the numbers.
        """
        model.learner.settled()
        self.model, self.unsaved = model, True
        if time.monotonic() - self.saved >= WRITE_RATIO * self.write_seconds:
            self.save()

    def save(self) -> None:
        if self.unsaved:
            begun = time.monotonic()
            self.file.write(self.model)
            self.saved = time.monotonic()
            self.write_seconds, self.unsaved = self.saved - begun, False


@contextmanager
def open_session(
    path: str | Path, begin: Callable[[], ModelFile] | None = None, wait: float = WAIT
) -> Iterator[Session]:
    """Lock a model file and work on it; `begin` makes its content where there is no file yet."""
    path = Path(path)
    if path.suffix.lower() in FORMATS and not path.is_file():
        raise InputError(f"expected the name of a model file first, got {path}, which is called like data")
    with locked(path, wait) as file:
        new = begin is not None and not file.exists()
        model = begin() if new and begin is not None else adopted(file.read(), path)
        session = Session(file, model, new)
        try:
            yield session
        finally:
            session.save()  # whole pieces only, whatever happened to the next one


def require_estimator(model: ModelFile, path: str | Path) -> None:
    """Refuse what cannot be taught from tables, and notes on columns that are not the learner's."""
    learner = model.learner
    if type(learner).__name__ not in ("ContinualClassifier", "ContinualRegressor"):
        raise InputError(
            f"expected a ContinualClassifier or a ContinualRegressor in {path}, got {type(learner).__name__}; "
            f"use it in Python: rm.load(path)"
        )
    wrong = columns_problem(model.notes, learner)
    if wrong:
        raise FileError(f"cannot use {path}: its notes make no sense: {wrong}")


def rows_of(learner: Any) -> int:
    """The rows a learner has learned."""
    return int(vars(learner).get("n_seen_", 0))


def keeps_all(learner: Any) -> bool:
    """Whether a learner is a sum over rows that all weigh the same: rows can go out, and sums be joined."""
    from remanence.methods import RLS

    method = RLS() if learner.method is None else learner.method
    return isinstance(method, RLS) and method.forget == 1


def adopted(model: ModelFile, path: str | Path) -> ModelFile:
    """A model that may have been taught elsewhere, with what it knows already as the first entry of its ledger."""
    require_estimator(model, path)
    rows = rows_of(model.learner)
    if len(model.ledger) or not rows:
        return model
    mark = content_fingerprint(model.learner.coef_, model.learner.intercept_)
    return replace(model, ledger=Ledger((Entry(mark, LEARNED_IN_PYTHON, rows),)))


def copy_for_trial(learner: Any) -> Any:
    """A learner to try something on: teaching it leaves the first as it is."""
    return copy.copy(learner)  # (what was learned is replaced and never written to)


def batch_size(learner: Any, features: int) -> int:
    """Rows to hand to a learner at once, so that their features stay small beside a wide model."""
    width = features if learner.features is None else int(vars(learner.features).get("width", features))
    return max(256, LARGEST_BATCH // max(width, 1))
