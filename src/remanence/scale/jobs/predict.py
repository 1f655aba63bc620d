"""Predict with a model file on a cluster: workers read tables and write those with the predictions."""

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

from remanence.scale.jobs.cluster import in_order
from remanence.scale.naming import as_task
from remanence.store.jobs.predict import PredictReport, predict_table, read_fitted
from remanence.store.model_file import ModelFile
from remanence.tables.paths import is_address


def predict_files(
    model: str | Path,
    paths: Sequence[str | Path],
    outs: Sequence[str | Path],
    client: Any,
    on_files: Callable[[int], None] = lambda count: None,
    **options: Any,
) -> list[PredictReport]:
    """Write a table with predictions for each table; `options` are those of `predict_table`.

    Workers must be able to write to the files of `outs`. If a table raises an error, those before it are written.
    """
    name, found = f"remanence-{uuid.uuid4().hex[:12]}", list[PredictReport]()
    fitted = client.submit(_same, read_fitted(model), key=f"{name}-model", pure=False)

    def submit(k: int) -> Any:
        key = f"{name}-predict-{k}"
        return client.submit(_predict, fitted, seen(paths[k]), seen(outs[k]), options, key=key, pure=False)

    for report in in_order(client, len(paths), submit, lambda k: PurePath(paths[k]).name):
        report.out = str(outs[len(found)])
        found.append(report)
        on_files(1)
    return found


def seen(path: str | Path) -> str:
    """A file as workers see it."""
    return str(path) if is_address(path) else os.path.abspath(path)  # noqa: PTH100 (links are kept)


def _same(model: ModelFile) -> ModelFile:
    return model


def _predict(model: ModelFile, path: str, out: str, options: dict[str, Any]) -> PredictReport:
    with as_task():
        return predict_table(model, path, out, **options)
