"""The model file: save a learner, load it, and continue with the same numbers.

rm.save(learner, path)      all that was learned, in one safetensors file with a checksum
rm.load(path)               the learner; raises FileError unless every bit is as it was written
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
    """Write a learner to a file atomically: a reader sees the old file or the new one.

    The file holds no pending rows and no offset that is a row: an estimator is converted to that form first, which
    changes it by rounding only; from then on the estimator and its file give identical results to the bit.

    Parameters
    ----------
    learner : estimator, pair (method, state), LinearGaussian or what kalman.filter returned, guard or online learner
        Functions are not stored: a `step` that is a Python function raises InputError. Of `features` other than
        RandomFeatures only the fingerprint is stored; pass them to `load`.
    path : path
        By convention a `.safetensors` file. A file with a ledger (written by the command) is not overwritten.
    wait : float
        Seconds to wait while another process writes the same file.

    Examples
    --------
    >>> import remanence as rm
    >>> model = rm.ContinualClassifier().fit([[0.0], [1.0]], ["a", "b"])
    >>> rm.save(model, "model.safetensors")
    >>> rm.load("model.safetensors").predict([[0.9]]).tolist()
    ['b']
    """
    with locked(path, wait) as file:
        if file.path.is_file() and _may_keep_a_ledger(file.path):
            raise FileError(
                f"{path} keeps a ledger of what it has learned, or is damaged or newer and may keep one, which a bare "
                f"learner would overwrite; save under another name, or write a store.ModelFile(learner, ledger)"
            )
        file.write(ModelFile(learner))


def load(path: str | Path, features: Any = None, model: Any = None) -> Any:
    """Read a learner from a file; it gives the same results as the saved one, to the bit.

    Parameters
    ----------
    path : path
        The file.
    features : transformer, optional
        The frozen encoder of the model, if the file does not hold it; its fingerprint must match.
    model : torch.nn.Module, optional
        The network of a guard or an online learner, with its own weights loaded.

    Returns
    -------
    object
        The learner, as it was given to `save`.

    Examples
    --------
    >>> import remanence as rm
    >>> rls = rm.RLS()
    >>> rm.save((rls, rls.update(rls.init(1, 1), [[1.0]], [[2.0]])), "state.safetensors")
    >>> method, state = rm.load("state.safetensors")
    >>> method.weights(state).round(12).tolist()
    [[1.0]]
    """
    return named(read(path, features, model))


def named(model: ModelFile) -> Any:
    """The learner, with the names of its columns if it was trained on tables, so that others raise InputError."""
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
