"""How often a model file is right on tables whose answers are known."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.store.jobs.columns import samples
from remanence.store.jobs.labels import check_new_labels
from remanence.store.jobs.learn import OnRows, ignore_name_warnings
from remanence.store.jobs.predict import is_classifier, opened, resolve_columns
from remanence.store.jobs.session import batch_size
from remanence.tables import expand_paths, open_table


@dataclass
class Evaluation:
    """How a model did on tables it was asked about."""

    rows: int
    dropped: int
    labels: list[Any]  # of a classifier: every label that was true or foretold
    confusion: Array  # (labels, labels): rows of a true label that were given a label
    errors: dict[str, dict[str, float | None]]  # of a regressor: target: its errors

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / self.rows)

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"rows": self.rows, "dropped": self.dropped}
        if self.errors:
            return told | {"targets": self.errors}
        met, right = self.confusion.sum(axis=1).tolist(), np.diag(self.confusion).tolist()
        classes = [
            {"label": label, "rows": n, "correct": k, "accuracy": k / n if n else None}
            for label, n, k in zip(self.labels, met, right, strict=True)
        ]
        confusion = {"labels": self.labels, "counts": self.confusion.tolist()}
        wrong = self.rows - sum(right)
        return told | {"accuracy": self.accuracy, "wrong": wrong, "classes": classes, "confusion": confusion}


def evaluate_tables(
    model: str | Path,
    data: Iterable[str | Path],
    label: str | None = None,
    targets: Sequence[str] = (),
    ignored: Sequence[str] = (),
    drop: bool = False,
    on_rows: OnRows = lambda name, rows: None,
) -> Evaluation:
    """Ask the model about rows whose answers are known; `label` and `targets` are the model's own unless given."""
    paths, known = expand_paths(data), opened(model)
    classifier = is_classifier(known.learner)
    if (targets and classifier) or (label is not None and not classifier):
        raise InputError(f"expected {'--label' if classifier else '--target'} for this model, got the other")
    pairs: dict[tuple[Any, Any], int] = {}
    sums = Errors()
    rows = dropped = 0
    for path in paths:
        table = open_table(path)
        columns = resolve_columns(known, table, [*filter(None, [label]), *targets, *ignored])
        columns = replace(columns, label=label or columns.label, targets=tuple(targets) or columns.targets)
        if not columns.answers:
            raise InputError(f"expected to be told the column of answers, {'--label' if classifier else '--target'}")
        table.require(columns.answers)
        if classifier and columns.kind is None:
            columns = replace(columns, kind="text" if known.learner.classes_.dtype.kind == "U" else "integers")
        size = batch_size(known.learner, len(columns.features))
        for piece in table.pieces():
            for part in samples(piece, columns, drop):
                rows, dropped = rows + len(part.X), dropped + part.missing
                check_new_labels(part.y, _classes(known.learner), drop, piece.name)
                for i in range(0, len(part.X), size):
                    with ignore_name_warnings():
                        answers, truth = known.learner.predict(part.X[i : i + size]), part.y[i : i + size]
                    on_rows(piece.name, len(truth))
                    if classifier:
                        for pair in zip(truth.tolist(), answers.tolist(), strict=True):
                            pairs[pair] = pairs.get(pair, 0) + 1
                    else:
                        sums.add(truth.reshape(len(truth), -1), answers.reshape(len(truth), -1))
    if not rows:
        raise InputError("expected rows without missing entries to evaluate on, got none")
    labels = sorted({label for pair in pairs for label in pair} | set(_classes(known.learner)))
    confusion = np.zeros((len(labels), len(labels)), int)
    place = {label: k for k, label in enumerate(labels)}
    for (true, given), count in pairs.items():
        confusion[place[true], place[given]] = count
    return Evaluation(rows, dropped, labels, confusion, {} if classifier else sums.of(columns.targets))


def _classes(learner: Any) -> list[Any]:
    return learner.classes_.tolist() if is_classifier(learner) else []


class Errors:
    """Sums over rows from which the errors of a regressor follow."""

    def __init__(self) -> None:
        self.parts: list[Array] = []  # n, Σe², Σ|e|, Σy, Σy² of a batch, (5, k)

    def add(self, truth: Array, answers: Array) -> None:
        if truth.shape != answers.shape:
            raise InputError(f"expected {answers.shape[1]} targets, as the model has, got {truth.shape[1]}")
        off = answers - truth
        centre = truth.mean(axis=0)
        spread = ((truth - centre) ** 2).sum(axis=0)
        self.parts.append(
            np.array([np.full(len(centre), len(off)), (off**2).sum(0), np.abs(off).sum(0), centre, spread])
        )

    def of(self, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
        n, squares, sizes, centres, spreads = np.stack(self.parts, axis=1)  # each (batches, k)
        mean = (n * centres).sum(0) / n.sum(0)
        whole = spreads.sum(0) + (n * (centres - mean) ** 2).sum(0)  # about the mean of all rows
        found: dict[str, dict[str, float | None]] = {}
        for j, name in enumerate(names):
            explained = 1 - float(squares[:, j].sum() / whole[j]) if whole[j] > 0 else None
            found[name] = {
                "rmse": float(np.sqrt(squares[:, j].sum() / n[:, j].sum())),
                "mae": float(sizes[:, j].sum() / n[:, j].sum()),
                "r2": explained,
            }
        return found
