"""Evaluating a model file on tables that have the true labels or targets."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.evaluation.reliability import Reliability
from remanence.labels import check_new_labels, kind_of_classes
from remanence.store.jobs.columns import Columns, samples
from remanence.store.jobs.label_sets import SEPARATOR, distinct_labels
from remanence.store.jobs.learn import OnRows, ignore_name_warnings
from remanence.store.jobs.predict import read_fitted, resolve_columns
from remanence.store.jobs.session import batch_size, is_classifier
from remanence.store.model_file import ModelFile
from remanence.tables import Dialect, Table, expand_paths, open_table
from remanence.tables.paths import local_file


@dataclass
class Evaluation:
    """The errors of a model on some tables."""

    rows: int
    dropped: int
    labels: list[Any]  # of a classifier: all labels, true or predicted
    confusion: Array  # (labels, labels): rows by true and by predicted label
    errors: dict[str, dict[str, float | None]]  # of a regressor: target: its errors
    reliability: Reliability | None = None  # of a classifier
    sets: "SetCounts | None" = None  # of a classifier of rows with several labels

    @property
    def accuracy(self) -> float:
        """The share of rows whose label was predicted, or all of whose labels were."""
        return float((np.trace(self.confusion) if self.sets is None else self.sets.exact) / self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON has it."""
        found: dict[str, Any] = {"rows": self.rows, "dropped": self.dropped}
        if self.errors:
            return found | {"targets": self.errors}
        if self.sets is not None:
            found |= {"accuracy": self.accuracy, "wrong": self.rows - self.sets.exact}
            return found | {"labels": self.sets.to_list()}
        counts, right = self.confusion.sum(axis=1).tolist(), np.diag(self.confusion).tolist()
        classes = [
            {"label": label, "rows": n, "correct": k, "accuracy": k / n if n else None}
            for label, n, k in zip(self.labels, counts, right, strict=True)
        ]
        confusion = {"labels": self.labels, "counts": self.confusion.tolist()}
        found |= {"accuracy": self.accuracy, "wrong": self.rows - sum(right)}
        if self.reliability is not None:
            said = self.reliability.to_dict()
            found |= {name: said[name] for name in ("log_loss", "calibration_error")} | {"reliability": said["bins"]}
        return found | {"classes": classes, "confusion": confusion}


def evaluate_tables(
    model: str | Path,
    data: Iterable[str | Path],
    label: str | None = None,
    targets: Sequence[str] = (),
    ignored: Sequence[str] = (),
    drop: bool = False,
    on_rows: OnRows = lambda name, rows: None,
    dialect: Dialect | None = None,
    given: str | None = None,
) -> Evaluation:
    """Compare predictions with the true outputs; `label` and `targets` default to the columns of the model.

    `dialect` and `given` are the dialect of CSV files and the format of tables whose names do not tell, such as that of
    standard input (-).
    """
    paths, fitted = expand_paths(data), read_fitted(model)
    asked = EvaluateOptions(label, tuple(targets), tuple(ignored), drop, dialect, given)
    asked.check(fitted)
    return combined(fitted, [compare_table(fitted, path, asked, on_rows) for path in paths])


@dataclass(frozen=True)
class EvaluateOptions:
    """How tables are to be read for an evaluation; see `evaluate_tables`."""

    label: str | None = None
    targets: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    drop: bool = False
    dialect: Dialect | None = None
    given: str | None = None

    def check(self, model: ModelFile) -> None:
        """Raise an InputError for outputs that the model cannot have."""
        classifier = is_classifier(model.learner)
        if (self.targets and classifier) or (self.label is not None and not classifier):
            wanted = "label" if classifier else "targets"
            raise InputError(f"expected `{wanted}` for this model, got the other", arguments=(wanted,))


@dataclass
class Compared:
    """Predictions and true outputs of one table, as counts and sums."""

    rows: int = 0
    dropped: int = 0
    pairs: Counter[tuple[Any, Any]] = field(default_factory=Counter)  # (true, predicted): rows
    sums: "ErrorSums" = field(default_factory=lambda: ErrorSums())
    reliability: Reliability | None = None
    sets: "SetCounts | None" = None
    targets: tuple[str, ...] = ()


def compare_table(
    fitted: ModelFile, path: str | Path, asked: EvaluateOptions, on_rows: OnRows = lambda name, rows: None
) -> Compared:
    """Compare predictions with the true outputs of one table."""
    learner, classifier, found = fitted.learner, is_classifier(fitted.learner), Compared()
    classes = learner.classes_.tolist() if classifier else []
    if vars(learner).get("multilabel_") == "sets":
        found.sets = SetCounts(classes)
    with local_file(path, asked.given) as file:
        table = open_table(file, asked.dialect, given=asked.given)
        columns = _columns(fitted, table, asked.label, asked.targets, asked.ignored)
        found.targets, size = columns.targets, batch_size(learner, len(columns.features))
        for piece in table.pieces():
            for part in samples(piece, columns, asked.drop):
                found.rows, found.dropped = found.rows + len(part.X), found.dropped + part.missing
                check_new_labels(distinct_labels(part.y), classes, asked.drop, piece.name)
                for i in range(0, len(part.X), size):
                    with ignore_name_warnings():
                        X, true = part.X[i : i + size], part.y[i : i + size]
                        predicted = learner.predict(X)
                        if classifier and found.sets is None:
                            more = Reliability.of(learner.predict_proba(X), true, classes)
                            found.reliability = more if found.reliability is None else found.reliability + more
                    on_rows(piece.name, len(true))
                    if found.sets is not None:
                        found.sets.add(true, predicted)
                    elif classifier:
                        found.pairs.update(zip(true.tolist(), predicted.tolist(), strict=True))
                    else:
                        found.sums.add(true.reshape(len(true), -1), predicted.reshape(len(true), -1))
    return found


def combined(fitted: ModelFile, parts: Sequence[Compared]) -> Evaluation:
    """The evaluation on all tables."""
    rows, dropped = sum(part.rows for part in parts), sum(part.dropped for part in parts)
    if not rows:
        raise InputError("expected rows without missing entries to evaluate on, got none")
    if not is_classifier(fitted.learner):
        sums = ErrorSums()
        sums.parts = [batch for part in parts for batch in part.sums.parts]
        return Evaluation(rows, dropped, [], np.zeros((0, 0), int), sums.errors(parts[-1].targets))
    sets = [part.sets for part in parts if part.sets is not None]
    if sets:
        every = reduce(add, sets)
        return Evaluation(rows, dropped, every.labels, np.zeros((0, 0), int), {}, None, every)
    pairs = sum((part.pairs for part in parts), Counter[tuple[Any, Any]]())
    reliability = reduce(add, [part.reliability for part in parts if part.reliability is not None])
    return Evaluation(rows, dropped, *confusion_matrix(pairs, fitted.learner.classes_.tolist()), {}, reliability)


def confusion_matrix(pairs: dict[tuple[Any, Any], int], classes: list[Any]) -> tuple[list[Any], Array]:
    """All labels, and the rows by true and by predicted label, from the counts of such pairs."""
    labels = sorted({label for pair in pairs for label in pair} | set(classes))
    position = {label: k for k, label in enumerate(labels)}
    confusion = np.zeros((len(labels), len(labels)), int)
    for (true, predicted), count in pairs.items():
        confusion[position[true], position[predicted]] = count
    return labels, confusion


def _columns(
    model: ModelFile, table: Table, label: str | None, targets: Sequence[str], ignored: Sequence[str]
) -> Columns:
    """The columns of a table, with the outputs as given or as the model has them."""
    columns = resolve_columns(model, table, [*filter(None, [label]), *targets, *ignored])
    columns = replace(columns, label=label or columns.label, targets=tuple(targets) or columns.targets)
    classifier = is_classifier(model.learner)
    if not columns.outputs:
        wanted = "label" if classifier else "targets"
        raise InputError(f"expected `{wanted}`, the column of true outputs, got none", arguments=(wanted,))
    table.require(columns.outputs)
    form = vars(model.learner).get("multilabel_")
    if form == "indicator":
        raise InputError("expected a model of one label per row or of sets, got one of an indicator; use it in Python")
    if form is not None:
        columns = replace(columns, separator=columns.separator or SEPARATOR)
    if classifier and columns.label_kind is None:
        columns = replace(columns, label_kind=kind_of_classes(model.learner.classes_))
    return columns


class SetCounts:
    """Counts over rows with several labels: how often a label was there, predicted, and both."""

    def __init__(self, classes: Iterable[Any]) -> None:
        self.exact = 0  # rows all of whose labels were right
        self.true, self.predicted, self.both = Counter[Any](dict.fromkeys(classes, 0)), Counter[Any](), Counter[Any]()

    def add(self, true: Array, predicted: Array) -> None:
        """Add rows, sets (n,) each."""
        for (there, said), rows in Counter(zip(true.tolist(), predicted.tolist(), strict=True)).items():
            self.exact += rows if there == said else 0
            for counts, labels in ((self.true, there), (self.predicted, said), (self.both, there & said)):
                counts.update(dict.fromkeys(labels, rows))

    def __add__(self, other: "SetCounts") -> "SetCounts":
        both = SetCounts(())
        both.exact = self.exact + other.exact
        for counts in (self, other):
            both.true.update(counts.true)
            both.predicted.update(counts.predicted)
            both.both.update(counts.both)
        return both

    @property
    def labels(self) -> list[Any]:
        """All labels, true or predicted."""
        return sorted(self.true)

    def to_list(self) -> list[dict[str, Any]]:
        """Every label with its counts, its precision and its recall; None where nothing was there or predicted."""
        return [
            {
                "label": label,
                "rows": (there := self.true[label]),
                "predicted": (said := self.predicted[label]),
                "correct": (both := self.both[label]),
                "precision": both / said if said else None,
                "recall": both / there if there else None,
            }
            for label in self.labels
        ]


class ErrorSums:
    """Sums over batches of rows from which the errors of a regressor follow."""

    def __init__(self) -> None:
        self.parts: list[Array] = []  # n, Σe², Σ|e|, mean of y, Σ(y − mean)² of a batch, (5, k)

    def add(self, true: Array, predicted: Array) -> None:
        """Add a batch, each (n, k)."""
        if true.shape != predicted.shape:
            raise InputError(f"expected {predicted.shape[1]} targets, as the model has, got {true.shape[1]}")
        off = predicted - true
        centre = true.mean(axis=0)
        spread = ((true - centre) ** 2).sum(axis=0)
        self.parts.append(
            np.array([np.full(len(centre), len(off)), (off**2).sum(0), np.abs(off).sum(0), centre, spread])
        )

    def errors(self, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """RMSE, mean absolute error and R² of every target."""
        n, squares, sizes, centres, spreads = np.stack(self.parts, axis=1)  # each (batches, k)
        mean = (n * centres).sum(0) / n.sum(0)
        total = spreads.sum(0) + (n * (centres - mean) ** 2).sum(0)  # about the mean of all rows
        found: dict[str, dict[str, float | None]] = {}
        for j, name in enumerate(names):
            explained = 1 - float(squares[:, j].sum() / total[j]) if total[j] > 0 else None
            found[name] = {
                "rmse": float(np.sqrt(squares[:, j].sum() / n[:, j].sum())),
                "mae": float(sizes[:, j].sum() / n[:, j].sum()),
                "r2": explained,
            }
        return found
