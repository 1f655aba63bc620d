"""Predicting with a model file: a table with the predictions of the model beside the columns of the data."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError
from remanence.files import check_writable, remove_abandoned, write_atomically
from remanence.store.jobs.columns import Columns, blocks_of, features_of
from remanence.store.jobs.label_sets import SEPARATOR, are_sets, as_column
from remanence.store.jobs.learn import OnRows, check_feature_count, ignore_name_warnings, with_kinds
from remanence.store.jobs.session import batch_size, is_classifier, require_estimator, rows_of
from remanence.store.model_file import ModelFile, read
from remanence.tables import Dialect, RowBlock, Table, open_table
from remanence.tables.formats import compression_of, format_of
from remanence.tables.paths import STANDARD_INPUT, is_address, local_file
from remanence.tables.write import encoded, output_format

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # (a path has lost one of the two slashes)


def read_fitted(path: str | Path) -> ModelFile:
    """A model file to predict with, whose estimator has learned from some rows; any other is an InputError."""
    model = read(path, predict_only=True)
    require_estimator(model, path)
    if not rows_of(model.learner):
        raise InputError(
            f"expected a model that has learned something, got {path}, which has not; learn some rows first"
        )
    return model


def resolve_columns(model: ModelFile, table: Table, others: Sequence[str] = ()) -> Columns:
    """The meaning of the columns of a table to predict on; `others` are no features, if the model does not say."""
    known = Columns.from_notes(model.notes)
    if known is None:
        names = vars(model.learner).get("feature_names_in_")
        known = Columns(table.features(others) if names is None else tuple(map(str, names)))
        known = with_kinds(known, model.learner)
        check_feature_count(len(known.features), model.learner, table)
    known.check(table, predicting=True)
    return known


@dataclass
class PredictReport:
    """Where the predictions were written, for how many rows, and how many rows were dropped."""

    out: str
    rows: int = 0
    dropped: int = 0


def default_out(data: str | Path) -> Path:
    """Where predictions go if the user does not say: beside the data, in its format."""
    path = Path(data)
    if str(data) == STANDARD_INPUT or is_address(data):
        raise InputError(f"expected the name of a table to write, as the data are at {data}", arguments=("out",))
    ending = "".join(path.suffixes[-2:] if compression_of(path) else path.suffixes[-1:])
    return path.with_name(f"{path.name.removesuffix(ending)}-predicted{_written_as(ending)}")


def outputs_for(paths: Sequence[str | Path], out: str | Path | None) -> list[Path]:
    """Where the predictions for each of several tables go: into the folder `out`, or beside the data."""
    if out is None:
        return [default_out(path) for path in paths]
    folder = Path(out)
    if format_of(folder) is not None or (folder.exists() and not folder.is_dir()):
        raise InputError(f"expected a folder to write {len(paths)} tables to, got {out}", arguments=("out",))
    inside = [PurePath(PurePath(path).name) for path in paths]
    if len(set(inside)) < len(inside):
        inside = _below_one_folder(paths)
    found = [folder / path.with_suffix(_written_as(path.suffix)) for path in inside]
    twice = [path.name for path, count in Counter(found).items() if count > 1]
    if twice:
        raise InputError(f"expected tables of different names to write to one folder, got {twice[0]} more than once")
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
    return found


def _written_as(ending: str) -> str:
    """The ending of a table with predictions; an NPY file, which is one array, becomes an NPZ file."""
    return ".npz" if ending.lower() == ".npy" else ending


def _below_one_folder(paths: Sequence[str | Path]) -> list[PurePath]:
    """Tables of the same names in the folders in which they are, such as those of a partitioned data set."""
    names = [str(path) if is_address(path) else str(Path(path).absolute()) for path in paths]
    try:
        shared = os.path.commonpath([os.path.dirname(name) for name in names])  # noqa: PTH120 (also of addresses)
    except ValueError:  # (files and addresses)
        return [PurePath(PurePath(name).name) for name in names]
    return [PurePath(os.path.relpath(name, shared)) for name in names]


def predict_table(
    model: str | Path | ModelFile,
    data: str | Path,
    out: str | Path,
    scores: bool = False,
    column: str = "predicted",
    ignored: Sequence[str] = (),
    drop: bool = False,
    on_rows: OnRows = lambda name, rows: None,
    overwrite: bool = False,
    raw: bool = False,
    dialect: Dialect | None = None,
    given: str | None = None,
) -> PredictReport:
    """Write a table with all columns of `data` and the predictions of the model, block by block, in its order.

    `scores` adds the score of every class as `score_<class>`. A column of that name in the data is an InputError, and
    an existing file is a FileError unless `overwrite` is set. `raw` leaves text in CSV files as it is, also where a
    spreadsheet would run it; `dialect` and `given` are the dialect of a CSV file and the format of the data. The model
    may be given as it was read.
    """
    with local_file(data, given) as file:
        return _predict_file(
            model, file, Path(out), scores, column, ignored, drop, on_rows, overwrite, raw, dialect, given
        )


def _predict_file(
    model: str | Path | ModelFile,
    data: Path,
    out: Path,
    scores: bool,
    column: str,
    ignored: Sequence[str],
    drop: bool,
    on_rows: OnRows,
    overwrite: bool,
    raw: bool,
    dialect: Dialect | None,
    given: str | None,
) -> PredictReport:
    report = PredictReport(str(out))
    if ADDRESS.match(str(out)) and not out.parent.exists():
        raise InputError(
            f"expected a file of this machine to write to, got {out}; copy it there afterwards", arguments=("out",)
        )
    out = Path(os.path.realpath(out))  # (links are followed)
    output_format(out)
    fitted = model if isinstance(model, ModelFile) else read_fitted(model)
    table = open_table(data, dialect, given=given)
    for taken in (data,) if isinstance(model, ModelFile) else (model, data):
        if out.exists() and out.samefile(taken):
            raise InputError(f"expected another file to write to than {taken}, which is read; name a new one")
    check_writable(out)
    if out.exists() and not overwrite:
        raise FileError(
            f"{out} exists already and would be lost; name a new file, or overwrite it", arguments=("overwrite",)
        )
    remove_abandoned(out)
    if scores and not is_classifier(fitted.learner):
        raise InputError("expected a classifier with `scores`, got a regressor, whose predictions are numbers already")
    columns = resolve_columns(fitted, table, ignored)
    names = _new_names(fitted.learner, columns, scores, column)
    twice = [name for name in names if name in table.names]
    if twice:
        raise InputError(
            f"expected {data.name} to have no column {twice[0]!r} yet, but it has; name the new one with `column`",
            arguments=("column",),
        )
    blocks = _predicted(fitted.learner, table, columns, scores, names, out, drop, report, on_rows)
    write_atomically(out, encoded(out, blocks, raw))
    return report


def _new_names(learner: Any, columns: Columns, scores: bool, column: str) -> list[str]:
    """The names of the columns to add."""
    if is_classifier(learner):
        if vars(learner).get("multilabel_") == "indicator":
            said = [f"{column}_{label}" for label in learner.classes_.tolist()]
            return [*said, *(f"score_{label}" for label in learner.classes_.tolist() if scores)]
        return [column, *(f"score_{label}" for label in learner.classes_.tolist() if scores)]
    outputs = learner.coef_.shape[0] if learner.coef_.ndim == 2 else 1
    if outputs == 1:
        return [column]
    return [f"{column}_{name}" for name in (columns.targets or range(outputs))]


def _predicted(
    learner: Any,
    table: Table,
    columns: Columns,
    scores: bool,
    names: list[str],
    out: Path,
    drop: bool,
    report: PredictReport,
    on_rows: OnRows,
) -> Iterator[dict[str, Any]]:
    size = batch_size(learner, len(columns.features))
    for piece in table.pieces():
        for block in blocks_of(piece, columns, originals=True):
            X, complete = features_of(block, columns, piece.name)
            missing = int((~complete).sum())
            if missing and not drop:
                raise InputError(
                    f"expected numbers everywhere in {piece.name}, but row {block.first + int(complete.argmin()) + 1} "
                    f"has missing or infinite entries; drop such rows, or fill them in",
                    arguments=("drop",),
                )
            kept, X = (block.only(complete), X[complete]) if missing else (block, X)
            report.rows, report.dropped = report.rows + len(X), report.dropped + missing
            on_rows(piece.name, len(X))
            if len(X):
                parts = [_predictions(learner, X[i : i + size], scores) for i in range(0, len(X), size)]
                lists, between = output_format(out) not in ("csv", "npz"), columns.separator or SEPARATOR
                joined = (np.concatenate(column) for column in zip(*parts, strict=True))
                added = (as_column(found, between, lists) if are_sets(found) else found for found in joined)
                yield {**_original(kept, columns, out), **dict(zip(names, added, strict=True))}
    if not report.rows:
        raise InputError(f"expected rows without missing entries in {table.path.name}, got none")


def _predictions(learner: Any, X: Any, scores: bool) -> list[Array]:
    """The columns to add for some rows."""
    with ignore_name_warnings():
        if not scores:
            found = np.asarray(learner.predict(X))
            return [found] if found.ndim == 1 else list(found.T)
        scored = learner.class_scores(X)
        if "multilabel_" in vars(learner):
            found = learner.predict(X)
            return [*([found] if found.ndim == 1 else found.T), *scored.T]
    return [learner.classes_[scored.argmax(axis=1)], *scored.T]


def _original(block: RowBlock, columns: Columns, out: Path) -> dict[str, Any]:
    """The columns of the data; features of a CSV file become numbers in files of other formats."""
    assert block.original is not None
    original = dict(block.original)
    position = {name: j for j, name in enumerate(columns.numbers)}
    if output_format(out) == "csv":
        return original
    text = {n for n, c in original.items() if isinstance(c, np.ndarray) and c.dtype.kind == "O"}
    return {n: block.X[:, position[n]] if n in position and n in text else c for n, c in original.items()}
