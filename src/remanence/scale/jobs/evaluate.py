"""Evaluate a model file on a cluster: workers compare tables, and their counts and sums are added in order."""

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import Any

from remanence.scale.jobs.cluster import in_order
from remanence.scale.jobs.predict import seen
from remanence.scale.naming import as_task
from remanence.store.jobs.evaluate import Compared, EvaluateOptions, Evaluation, combined, compare_table
from remanence.store.jobs.learn import OnRows
from remanence.store.jobs.predict import read_fitted
from remanence.store.model_file import ModelFile


def evaluate_files(
    model: str | Path,
    paths: Iterable[str | Path],
    asked: EvaluateOptions,
    client: Any,
    on_rows: OnRows = lambda name, rows: None,
    on_files: Callable[[int], None] = lambda count: None,
) -> Evaluation:
    """Compare predictions with the true outputs of tables, as `evaluate_tables` does."""
    name, found, files = f"remanence-{uuid.uuid4().hex[:12]}", list[Compared](), list(paths)
    fitted = read_fitted(model)
    asked.check(fitted)
    sent = client.submit(_same, fitted, key=f"{name}-model", pure=False)

    def submit(k: int) -> Any:
        return client.submit(_compare, sent, seen(files[k]), asked, key=f"{name}-compare-{k}", pure=False)

    for part in in_order(client, len(files), submit, lambda k: PurePath(files[k]).name):
        on_rows(PurePath(files[len(found)]).name, part.rows)
        found.append(part)
        on_files(1)
    return combined(fitted, found)


def _same(model: ModelFile) -> ModelFile:
    return model


def _compare(model: ModelFile, path: str, asked: EvaluateOptions) -> Compared:
    with as_task():
        return compare_table(model, path, asked)
