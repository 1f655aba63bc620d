"""Asking a model file about a table: predictions beside the columns they came with."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError
from remanence.files import refuse_unwritable, remove_abandoned, write_atomically
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.learn import OnRows, ignore_name_warnings
from remanence.store.jobs.session import batch_size, require_estimator, rows_of
from remanence.store.model_file import ModelFile, read
from remanence.tables import RowBlock, Table, open_table
from remanence.tables.write import encoded, ending


def opened(path: str | Path) -> ModelFile:
    """A model that can be asked, or a refusal."""
    model = read(path)
    require_estimator(model, path)
    if not rows_of(model.learner):
        raise InputError(f"expected a model that has learned something, got {path}, which has not; teach it first")
    return model


def resolve_columns(model: ModelFile, table: Table, aside: Sequence[str] = ()) -> Columns:
    """What the columns of a table mean to a model that is asked; `aside` are no features, should nobody have said."""
    known = Columns.from_notes(model.notes)
    if known is None:
        names = vars(model.learner).get("feature_names_in_")
        known = Columns(table.features(aside) if names is None else tuple(map(str, names)))
        wanted = model.learner.n_features_in_
        if len(known.features) != wanted:
            raise InputError(
                f"expected {wanted} columns of features in {table.path.name}, as the model was taught in Python, got "
                f"{len(known.features)}; leave others out with --ignore"
            )
    known.check(table, asking=True)
    return known


@dataclass
class PredictReport:
    """How many rows got a prediction, how many were left out, and where the table is."""

    out: str
    rows: int = 0
    dropped: int = 0


def predict_table(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    scores: bool = False,
    column: str = "predicted",
    ignored: Sequence[str] = (),
    drop: bool = False,
    on_rows: OnRows = lambda name, rows: None,
    overwrite: bool = False,
) -> PredictReport:
    """Write a table with all columns of `data` and the model's predictions beside them, block by block.

    `scores` adds the score of every class as `score_<class>`; a column that is there already is refused, and so is a
    file that is there already, unless `overwrite` allows it to be replaced.
    """
    named = str(out)
    model, data, out = Path(model), Path(data), Path(os.path.realpath(out))  # (a link is followed, as elsewhere)
    ending(out)
    known, table = opened(model), open_table(data)
    for taken in (model, data):
        if out.exists() and out.samefile(taken):
            raise InputError(f"expected another file to write to than {taken}, which is read; name a new one")
    refuse_unwritable(out)
    if out.exists() and not overwrite:
        raise FileError(f"{out} is there already and would be lost; name a new file, or allow it to be replaced")
    remove_abandoned(out)
    if scores and not is_classifier(known.learner):
        raise InputError("expected a classifier for --scores, got a regressor, whose predictions are numbers already")
    columns = resolve_columns(known, table, ignored)
    adding = _names_added(known.learner, columns, scores, column)
    twice = [name for name in adding if name in table.names]
    if twice:
        raise InputError(
            f"expected {data.name} to have no column {twice[0]!r} yet, but it has; name the new one with --column"
        )
    report = PredictReport(named)
    blocks = _answered(known.learner, table, columns, scores, adding, out, drop, report, on_rows)
    write_atomically(out, encoded(out, blocks))
    return report


def is_classifier(learner: Any) -> bool:
    return type(learner).__name__ == "ContinualClassifier"


def _names_added(learner: Any, columns: Columns, scores: bool, column: str) -> list[str]:
    if is_classifier(learner):
        return [column, *(f"score_{label}" for label in learner.classes_.tolist() if scores)]
    outputs = learner.coef_.shape[0] if learner.coef_.ndim == 2 else 1
    if outputs == 1:
        return [column]
    return [f"{column}_{name}" for name in (columns.targets or range(outputs))]


def _answered(
    learner: Any,
    table: Table,
    columns: Columns,
    scores: bool,
    adding: list[str],
    out: Path,
    drop: bool,
    report: PredictReport,
    on_rows: OnRows,
) -> Iterator[dict[str, Any]]:
    size = batch_size(learner, len(columns.features))
    for piece in table.pieces():
        for rows in piece.blocks(columns.features, originals=True):
            complete = rows.complete()
            missing = int((~complete).sum())
            if missing and not drop:
                raise InputError(
                    f"expected numbers everywhere in {piece.name}, but row {rows.first + int(complete.argmin()) + 1} "
                    f"has missing or infinite entries; leave such rows out with --drop-nan, or fill them in"
                )
            kept = rows.only(complete) if missing else rows
            report.rows, report.dropped = report.rows + len(kept.X), report.dropped + missing
            on_rows(piece.name, len(kept.X))
            if len(kept.X):
                parts = [_answers(learner, kept.X[i : i + size], scores) for i in range(0, len(kept.X), size)]
                answers = (np.concatenate(column) for column in zip(*parts, strict=True))
                yield {**_handed_on(kept, columns, out), **dict(zip(adding, answers, strict=True))}
    if not report.rows:
        raise InputError(f"expected rows without missing entries in {table.path.name}, got none")


def _answers(learner: Any, X: Array, scores: bool) -> list[Array]:
    """The columns to add."""
    with ignore_name_warnings():
        if not scores:
            found = np.asarray(learner.predict(X))
            return [found] if found.ndim == 1 else list(found.T)
        weighed = learner.class_scores(X)
    return [learner.classes_[weighed.argmax(axis=1)], *weighed.T]


def _handed_on(rows: RowBlock, columns: Columns, out: Path) -> dict[str, Any]:
    """The columns as they came; where a CSV becomes something else, what the model takes for numbers are numbers."""
    assert rows.original is not None
    original = dict(rows.original)
    place = {name: j for j, name in enumerate(columns.features)}
    if ending(out) == ".npz" and set(place) <= set(original):
        whole = "X" if "X" not in original else "features"
        return {whole: rows.X, **{n: c for n, c in original.items() if n not in place}}
    if ending(out) in (".csv", ".tsv"):
        return original
    text = {n for n, c in original.items() if isinstance(c, np.ndarray) and c.dtype.kind == "O"}
    return {n: rows.X[:, place[n]] if n in place and n in text else c for n, c in original.items()}
