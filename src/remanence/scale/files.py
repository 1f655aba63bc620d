"""Tables in files, or at addresses of other file systems, as blocks: a block is a file.

A file is read on a worker, batch by batch as tables/ reads it, and each batch is learned before the next is read. So a
file may be larger than the memory of a worker. What the columns mean is decided by the first file, in a task of its
own, unless the model knows its columns by name.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError
from remanence.estimators import RandomFeatures
from remanence.estimators.rows.columns import NamedTable
from remanence.labels import LabelKind, LabelReader, kind_of_classes
from remanence.store.jobs.columns import Columns, blocks_of, features_of, samples
from remanence.store.jobs.session import is_classifier
from remanence.tables import EmptyTable, Table, TableFeatures, expand_paths, open_table
from remanence.tables.encoding.kinds import guess_kinds
from remanence.tables.paths import STANDARD_INPUT, is_address, local_file

FIRST_FILES = 8  # files among which one must have rows


def are_files(data: Any) -> bool:
    """Whether data are names of files, patterns or addresses."""
    if isinstance(data, (str, Path)):
        return True
    return isinstance(data, (list, tuple)) and len(data) > 0 and all(isinstance(item, (str, Path)) for item in data)


@dataclass(frozen=True)
class TableRules:
    """What a model and the caller say of the columns of tables."""

    outputs: tuple[str, ...]
    classifier: bool
    names: tuple[str, ...] | None  # of the features, where the model knows them
    count: int | None  # of the features of a fitted model
    label_kind: LabelKind | None
    declared: Mapping[str, str] | None  # kinds of columns; None if all are numbers
    gaps: bool  # whether rows with missing features are learned
    named: bool  # whether the estimator takes rows with the names of their columns
    framed: bool = False  # whether features of other kinds take them, as a DataFrame

    @classmethod
    def of(cls, model: Any, labels: Any) -> "TableRules":
        """The rules for a model, fitted or not, and the names of label columns."""
        outputs = () if labels is None else (labels,) if isinstance(labels, str) else tuple(labels)
        known, classifier = vars(model), is_classifier(model)
        if not all(isinstance(name, str) for name in outputs) or (classifier and len(outputs) > 1):
            raise InputError(f"expected the name of the label column beside files, got {labels!r:.80}")
        features = known.get("features_", model.features)
        kinds = None
        if isinstance(features, TableFeatures):
            kinds = features.kinds_ if "encoding_" in vars(features) else dict(features.columns or {})
        names = known.get("feature_names_in_")
        fitted = "n_features_in_" in known
        kind = kind_of_classes(known["classes_"]) if "classes_" in known else None
        return cls(
            outputs,
            classifier,
            None if names is None else tuple(map(str, names)),
            known.get("n_features_in_"),
            kind,
            kinds,
            kinds is not None and features.missing == "indicator",
            names is not None if fitted else _takes_names(model.features),
            model.features is not None,
        )

    def columns(self, table: Table) -> Columns:
        """The meaning of the columns of a first table."""
        label, targets = (self.outputs[0], ()) if self.classifier and self.outputs else (None, self.outputs)
        if self.names is not None:
            table.require(self.names)
            found = Columns(self.names, label, targets)
        else:
            found = Columns.from_table(table, label, targets, ())
        if self.declared is not None:
            found = self._with_kinds(found, table)
        elif self.count not in (None, len(found.features)):
            raise InputError(
                f"expected {self.count} columns of features in {table.path.name}, as the model has, got "
                f"{len(found.features)}"
            )
        return replace(found, label_kind=self.label_kind or self._label_kind(found, table))

    def _with_kinds(self, columns: Columns, table: Table) -> Columns:
        assert self.declared is not None
        guess = guess_kinds(table.sample(columns.features), self.declared, table.path.name)
        kinds = {name: guess.kinds.get(name, "number") for name in columns.features}
        kinds = {name: kind for name, kind in kinds.items() if kind != "ignored"}
        return replace(columns, features=tuple(kinds), kinds=kinds, gaps=self.gaps)

    def _label_kind(self, columns: Columns, table: Table) -> LabelKind | None:
        """The kind of the labels by the first rows."""
        if columns.label is None:
            return None
        reader, block = LabelReader(None), next(iter(table.pieces()[0].blocks((), (columns.label,))))
        if block.labels is not None:
            reader.read(block.labels, f"{columns.label!r} of {table.path.name}", block.first)
        return reader.kind


def _takes_names(features: Any) -> bool:
    return features is None or isinstance(features, RandomFeatures) or hasattr(features, "feature_names_in_")


def file_paths(data: Any) -> list[str]:
    """The files that names, patterns, folders and addresses stand for, as workers can open them."""
    paths = expand_paths([data] if isinstance(data, (str, Path)) else data)
    if STANDARD_INPUT in paths:
        raise InputError("expected files that workers can read, got standard input (-); write it to a file first")
    return [str(path) if is_address(path) else os.path.abspath(path) for path in paths]  # noqa: PTH100 (keeps links)


def read_columns(paths: Sequence[str], rules: TableRules) -> Columns:
    """On a worker: the meaning of the columns, by the first of these files that has rows."""
    for path in paths:
        try:
            with opened(path) as table:
                return rules.columns(table)
        except EmptyTable:
            continue
    raise InputError(f"expected rows in one of the first {FIRST_FILES} files, got none; leave empty files out")


@contextmanager
def opened(path: str) -> Iterator[Table]:
    """The table in a file or at an address; an empty one raises EmptyTable."""
    try:
        with local_file(path) as file:
            table = open_table(file)
            try:
                table.pieces()
                yield table
            finally:
                table.close()
    except FileError as problem:
        if is_address(path) or Path(path).exists():
            raise
        raise FileError(f"{problem}; every worker must see the files under the same names") from None


@dataclass(frozen=True)
class FileBlock:
    """A file, to be read on a worker batch by batch."""

    path: str
    columns: Columns
    named: bool
    framed: bool  # whether what takes the names wants a DataFrame

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Rows and their labels; a file without rows has none."""
        try:
            with opened(self.path) as table:
                self.columns.check(table, predicting=True)
                table.require(self.columns.outputs)
                for piece in table.pieces():
                    for part in samples(piece, self.columns, drop=False):
                        pair = self._rows(part.X), part.y
                        del part
                        yield pair
                        del pair  # (while the next rows are read, these may be gone)
        except EmptyTable:
            return

    def rows(self) -> Iterator[Any]:
        """Rows alone: the file need not have labels."""
        try:
            with opened(self.path) as table:
                self.columns.check(table, predicting=True)
                for piece in table.pieces():
                    for block in blocks_of(piece, self.columns):
                        X, complete = features_of(block, self.columns, piece.name)
                        if not complete.all():
                            row = block.first + int(complete.argmin()) + 1
                            raise InputError(
                                f"expected numbers everywhere in {piece.name}, but row {row} has missing or infinite "
                                f"entries; fill them in"
                            )
                        rows = self._rows(X)
                        del block, X
                        yield rows
                        del rows
        except EmptyTable:
            return

    def _rows(self, X: Any) -> Any:
        if not self.named or self.columns.kinds is not None:
            return X
        if not self.framed:
            return NamedTable(list(self.columns.features), X)
        import pandas as pd

        return pd.DataFrame(X, columns=list(self.columns.features), copy=False)


def with_kinds(model: Any, columns: Columns) -> Any:
    """On a worker: the settings of a model whose encoder of tables has the kinds that the first file has fixed."""
    if columns.kinds is None:
        return model
    features = TableFeatures(dict(columns.kinds), model.features.text_width, model.features.missing)
    return model._with({**model.__dict__, "features": features})


def delayed_files(data: Any, rules: TableRules) -> list[tuple[str, Any]]:
    """Names and delayed blocks of all files."""
    from dask import delayed

    paths = file_paths(data)
    if rules.names is not None and rules.declared is None and (rules.label_kind or not rules.classifier):
        label, targets = (rules.outputs[0], ()) if rules.classifier and rules.outputs else (None, rules.outputs)
        columns: Any = Columns(rules.names, label, targets, label_kind=rules.label_kind)
    else:
        columns = delayed(read_columns, pure=True)(paths[:FIRST_FILES], rules)
    make = delayed(FileBlock, pure=True)
    return [(path, make(path, columns, rules.named, rules.framed)) for path in paths]
