"""Unlearn with a cluster: workers read the learned files in which rows are searched; the model is changed here."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remanence.arrays import Array
from remanence.errors import FileError, InputError, MissingDependency
from remanence.scale.jobs.cluster import in_order
from remanence.scale.jobs.predict import seen
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.sources import row_keys_of
from remanence.tables import Dialect, open_table


class ClusterKeys:
    """Reads the keys of the rows of files on a cluster, each file once."""

    def __init__(self, client: Any, dialect: Dialect | None = None) -> None:
        self.client, self.dialect = client, dialect
        self.known: dict[Path, Array | None] = {}
        self.columns: Columns | None = None

    def __call__(self, files: Sequence[Path], columns: Columns) -> Mapping[Path, Array]:
        if columns != self.columns:
            self.known, self.columns = {}, columns
        name, new = (
            f"remanence-{uuid.uuid4().hex[:12]}",
            [path for path in dict.fromkeys(files) if path not in self.known],
        )

        def submit(k: int) -> Any:
            return self.client.submit(_keys, seen(new[k]), columns, self.dialect, key=f"{name}-keys-{k}", pure=False)

        for path, keys in zip(new, in_order(self.client, len(new), submit, lambda k: new[k].name), strict=True):
            self.known[path] = keys
        return {path: keys for path in files if (keys := self.known[path]) is not None}


def _keys(path: str, columns: Columns, dialect: Dialect | None) -> Array | None:
    """On a worker: the keys of the rows of a file; None if it cannot be read."""
    try:
        table = open_table(path, dialect)
        try:
            return row_keys_of(table, columns)
        finally:
            table.close()
    except (InputError, FileError, MissingDependency):
        return None
