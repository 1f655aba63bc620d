"""The model file: save a learner, load it, and go on as if nothing had happened.

rm.save(learner, path)      all that was learned, in one safetensors file under a checksum
rm.load(path)               the learner; a file that is not exactly as it was written is refused
"""

from pathlib import Path
from typing import Any

import numpy as np

from remanence.errors import FileError
from remanence.hashing import content_fingerprint
from remanence.store.ledger import Entry, Ledger
from remanence.store.model_file import Description, Locked, ModelFile, describe, locked, read, write

__all__ = [
    "Description",
    "Entry",
    "Ledger",
    "Locked",
    "ModelFile",
    "content_fingerprint",
    "describe",
    "load",
    "locked",
    "read",
    "save",
    "write",
]


def save(learner: Any, path: str | Path, wait: float = 10.0) -> None:
    """Write a learner to a file, in one piece: a reader sees the old file or the new one.

    A file holds no rows that wait to be folded in and no offset that is a row: an estimator is brought into that form
    first, which changes it by rounding only, and from then on it and its file go on alike to the bit.

    Parameters
    ----------
    learner : estimator, pair (method, state), LinearGaussian or what kalman.filter returned, guard or online learner
        Functions are never stored: a `step` that is a function of your own is refused. Of `features` that are not
        RandomFeatures only the fingerprint is stored; bring them along when loading.
    path : path
        A `.safetensors` file by custom. One that keeps a ledger (the command line's) is not overwritten.
    wait : float
        Seconds to wait while another process writes the same file.
    """
    with locked(path, wait) as file:
        if file.path.is_file() and _may_keep_a_ledger(file.path):
            raise FileError(
                f"{path} keeps a ledger of what it has learned, or is damaged or newer so that it may, which a bare "
                f"learner would wipe out; save under another name, or write a store.ModelFile(learner, ledger)"
            )
        file.write(ModelFile(learner))


def load(path: str | Path, features: Any = None, model: Any = None) -> Any:
    """The learner in a file, to the last bit; going on gives the numbers of the one that was saved.

    Parameters
    ----------
    path : path
    features : transformer, optional
        The frozen encoder the model was taught with, where the file does not hold it. Another one is refused.
    model : torch.nn.Module, optional
        The network of a guard or an online learner, with its own weights loaded.
    """
    return named(read(path, features, model))


def named(model: ModelFile) -> Any:
    """The learner, with the names of its columns where it was taught from tables: others are then refused."""
    learner, columns = model.learner, model.notes.get("columns")
    known = getattr(learner, "__dict__", {})  # (pairs and results of rm.kalman have no names)
    if columns is not None and "feature_names_in_" not in known and known.get("n_features_in_") == len(columns):
        learner.feature_names_in_ = np.array(columns, dtype=object)
    return learner


def _may_keep_a_ledger(path: Path) -> bool:
    """Whether a file has a ledger, or had one before it was damaged or a newer version wrote it."""
    try:
        return len(describe(path).ledger) > 0
    except FileError:
        with path.open("rb") as file:
            start = file.read(1000)
        return any(word in start for word in (b'"sha256":"', b'"library":"remanence'))
