"""The model file: a learner, the ledger of what it has learned, and notes, written and read together.

    with locked(path) as file:                     no other process writes it meanwhile
        model = file.read()
        …train model.learner, and add the rows to model.ledger…
        file.write(replace(model, ledger=…))       atomically

Learner and ledger are in the same atomic write: after an interruption the file holds both changes or neither, so that
rows are learned exactly once.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError
from remanence.files import check_writable, remove_unfinished, write_atomically
from remanence.store.content.row_keys import RowKeys
from remanence.store.format.encode import decode, encode
from remanence.store.format.externals import Externals
from remanence.store.format.metadata import NOTES, SUMMARY, problem_of
from remanence.store.format.safetensors_file import packed, parse, read_bytes, read_metadata
from remanence.store.ledger import Ledger
from remanence.store.lock import lock_file
from remanence.store.records.pairs import Pair
from remanence.store.records.registry import RECORDS, class_of, find_name, predictor_of
from remanence.store.records.summary import summarize

FORMAT = 1  # raised when a reader of the old one would misread the new one
WITH_PIECES = 2  # the format of files that also hold one learner per piece; readers of format 1 reject it
BY_CONTENT = 3  # the format of files whose ledger knows rows, and which may hold learners of pieces and keys of rows
WAIT = 10.0  # seconds to wait for another writer
KEYS = ("format", "library", "about", "learner", "ledger", "notes")
PARTS: dict[int, tuple[str, ...]] = {FORMAT: (), WITH_PIECES: ("pieces",), BY_CONTENT: ("pieces", "rows")}  # beside it


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a model file holds: the learner, what it has learned, and notes on the tables it was trained on."""

    learner: Any
    ledger: Ledger = field(default_factory=Ledger)
    notes: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    pieces: Mapping[str, Any] | None = None  # mark in the ledger: learner of that piece; None if not kept
    row_keys: RowKeys | None = None  # of its rows, or of a sample of them; None in files of earlier versions


@dataclass(frozen=True, slots=True)
class Description:
    """The metadata of a model file."""

    summary: dict[str, Any]  # kind, method, settings, rows, labels, …
    ledger: Ledger
    notes: dict[str, Any]
    library: str  # the version that wrote it
    size: int  # bytes


def to_buffers(model: ModelFile) -> list[Any]:
    """The file as a list of buffers."""
    from remanence import __version__

    learner, found = _as_root(model.learner), _format(model)
    pieces = None if model.pieces is None else dict(model.pieces)
    keys = None if model.row_keys is None else model.row_keys.to_arrays()
    parts = {FORMAT: learner, WITH_PIECES: [learner, pieces], BY_CONTENT: [learner, pieces, keys]}
    tree, arrays = encode(parts[found])
    try:
        notes = json.dumps(dict(model.notes), allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise InputError(f"expected notes of JSON values, got {problem}") from None
    wrong = problem_of(json.loads(notes), "notes", NOTES)
    if wrong:
        raise InputError(wrong)
    metadata = {
        "format": str(found),
        "library": f"remanence {__version__}",
        "about": json.dumps(summarize(learner), allow_nan=False),
        "learner": _as_json(tree if found == FORMAT else tree[0]),
        "ledger": json.dumps(model.ledger.to_list()),
        "notes": notes,
    }
    for name, part in zip(PARTS[found], tree[1:] if found != FORMAT else (), strict=True):
        metadata[name] = _as_json(part)
    return packed(metadata, arrays)


def _format(model: ModelFile) -> int:
    """The oldest format that can hold the model."""
    if model.row_keys is not None or model.ledger.by_content():
        return BY_CONTENT
    return FORMAT if model.pieces is None else WITH_PIECES


def _as_json(tree: Any) -> str:
    return json.dumps(tree, allow_nan=False, separators=(",", ":"))


def from_bytes(content: bytes, features: Any = None, model: Any = None, predict_only: bool = False) -> ModelFile:
    """What a file of these bytes holds; raises FileError unless every bit is as it was written.

    With `predict_only`, a ContinualClassifier or ContinualRegressor becomes the LinearClassifier or LinearRegressor it
    derives from, which cannot learn.
    """
    metadata, arrays = parse(content)
    parsed = _parsed(metadata)
    externals = Externals(features=features, model=model)
    match parsed["learner"]:
        case {"class": str(name)} if name not in RECORDS or RECORDS[name].is_root:
            pass  # (`decode` rejects names that are not in the registry)
        case other:
            raise FileError(f"expected a learner, got {other!s:.60}")
    ledger = _ledger(parsed["ledger"])
    classes = predictor_of if predict_only else class_of
    parts = PARTS[int(parsed["format"])]
    if not parts:
        learner, more = decode(parsed["learner"], arrays, externals.given, classes), []
    else:
        trees = [parsed["learner"], *(parsed[name] for name in parts)]
        learner, *more = decode(trees, arrays, externals.given, classes)
    found = dict(zip(parts, more, strict=True))
    if parsed["format"] == str(WITH_PIECES) or found.get("pieces") is not None:
        _check_pieces(learner, ledger, found["pieces"])
    externals.check_all_used()
    return ModelFile(learner, ledger, parsed["notes"], found.get("pieces"), _row_keys(found.get("rows")))


def read(path: str | Path, features: Any = None, model: Any = None, predict_only: bool = False) -> ModelFile:
    """The model file at this path; pass the `features` or `model` it was trained with and does not hold."""
    path = Path(path)
    with naming(path):
        return from_bytes(read_bytes(path), features, model, predict_only)


def write(path: str | Path, model: ModelFile, wait: float = WAIT) -> None:
    """Write the model file; a reader sees the old one or the new one, and after a crash it is one of the two."""
    with locked(path, wait) as file:
        file.write(model)


def describe(path: str | Path) -> Description:
    """The metadata of a model file; quick for files of any size, since the checksum is not checked."""
    path = Path(path)
    with naming(path):
        found = _parsed(read_metadata(path))
        return Description(
            found["about"], _ledger(found["ledger"]), found["notes"], found["library"], path.stat().st_size
        )


class Locked:
    """A model file that no other process writes meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Whether there is a file yet."""
        return self.path.exists()

    def read(self, features: Any = None, model: Any = None) -> ModelFile:
        """What the file holds; see `read`."""
        return read(self.path, features, model)

    def write(self, model: ModelFile) -> None:
        """Replace the content of the file, atomically."""
        buffers = to_buffers(model)
        remove_unfinished(self.path)
        write_atomically(self.path, buffers)


@contextmanager
def locked(path: str | Path, wait: float = WAIT) -> Iterator[Locked]:
    """Read, change and write without another writer in between; gives up after `wait` seconds."""
    path = Path(os.path.realpath(path))  # two paths to one file share its lock
    check_writable(path)
    with lock_file(path, wait):
        yield Locked(path)


def _as_root(learner: Any) -> Any:
    """The learner, a tuple (method, state) as a Pair; raises InputError for anything else."""
    if type(learner) is tuple and len(learner) == 2:
        return Pair(*learner)
    name = find_name(learner)
    if name is not None and RECORDS[name].is_root:
        return learner
    hint = (
        "an estimator of Remanence, a pair (method, state), a model or a result of rm.kalman, or a learner of rm.deep"
    )
    raise InputError(f"expected {hint}, got {type(learner).__name__}")


def _parsed(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a file, parsed; an unknown format raises FileError before anything else is parsed."""
    found = metadata.get("format", "")
    if found not in map(str, PARTS):
        newer = found.isascii() and found.isdecimal() and len(found) < 10 and int(found) > FORMAT
        hint = "upgrade remanence to read it" if newer else "it was not written by rm.save"
        raise FileError(f"expected a model file of format {FORMAT}, got format {found!r:.20}; {hint}")
    more = PARTS[int(found)]
    missing = [name for name in (*KEYS, *more) if name not in metadata]
    if missing:
        raise FileError(f"expected a model file with {', '.join(missing)}, got one without")
    parsed: dict[str, Any] = {name: metadata[name] for name in (*KEYS, *more)}
    try:
        for name in ("about", "learner", "ledger", "notes", *more):
            parsed[name] = json.loads(metadata[name], parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise FileError(f"its metadata are invalid: {problem}") from None
    wrong = problem_of(parsed["about"], "a summary", SUMMARY) or problem_of(parsed["notes"], "notes", NOTES)
    if wrong:
        raise FileError(f"its metadata are invalid: {wrong}")
    return parsed


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _check_pieces(learner: Any, ledger: Ledger, pieces: Any) -> None:
    from remanence.store.jobs.piecewise import pieces_problem

    wrong = "expected pieces by mark" if type(pieces) is not dict else pieces_problem(learner, ledger, pieces)
    if wrong:
        raise FileError(f"its pieces are invalid: {wrong}")


def _row_keys(stored: Any) -> RowKeys | None:
    try:
        return None if stored is None else RowKeys.from_arrays(stored)
    except (KeyError, TypeError, ValueError) as problem:
        raise FileError(f"its keys of rows are invalid: {problem}") from None


def _ledger(entries: Any) -> Ledger:
    try:
        return Ledger.from_list(entries)
    except InputError as problem:
        raise FileError(f"its ledger is invalid: {problem}") from None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to the message of a FileError."""
    try:
        yield
    except FileError as problem:
        raise FileError(f"cannot load {path}: {problem}") from None
