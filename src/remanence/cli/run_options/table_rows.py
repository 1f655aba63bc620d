"""The rows of tables with the class of each, all of them in memory; rows with missing entries are left out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.cli.run_options.streams import Rows
from remanence.errors import InputError
from remanence.hashing import hash_bytes
from remanence.labels import as_labels
from remanence.tables import Table, open_table


def labelled_rows(paths: Sequence[Path], label: str, ignore: Sequence[str] = ()) -> list[Rows]:
    """Numbers and classes of CSV, NPZ or Parquet files, which have the same columns and one kind of labels."""
    tables = [open_table(path) for path in paths]
    if not label:
        raise InputError(
            f"expected --label, the column of {paths[0].name} that holds the classes; it has the columns "
            f"{', '.join(map(repr, tables[0].columns[-10:]))}"
        )
    columns = tables[0].features([label], list(ignore))
    for table, path in zip(tables[1:], paths[1:], strict=True):
        own = table.features([label], list(ignore))
        if set(own) != set(columns):
            differing = sorted(set(own) ^ set(columns))
            raise InputError(
                f"expected {path.name} to have the columns of {paths[0].name}, got a difference in "
                f"{', '.join(map(repr, differing[:5]))}{' …' if len(differing) > 5 else ''}; see --ignore"
            )
    read = [_read(table, path, columns, label) for table, path in zip(tables, paths, strict=True)]
    classes = as_labels(np.concatenate([y for _, y, _, _ in read]))
    if classes.dtype.kind == "O":
        classes = as_labels(classes.astype(str))
    if classes.dtype.kind == "f" and (classes != np.round(classes)).any():
        raise InputError(
            f"expected classes in column {label!r} of {paths[0].name}, got real numbers; run compares classifiers, "
            "choose a column of classes"
        )
    labels = np.split(classes, np.cumsum([len(y) for _, y, _, _ in read])[:-1])
    return [
        Rows(X, y, fingerprint=fingerprint, notes=notes)
        for (X, _, fingerprint, notes), y in zip(read, labels, strict=True)
    ]


def _read(table: Table, path: Path, columns: Sequence[str], label: str) -> tuple[Array, Array, str, tuple[str, ...]]:
    X, y, dropped, prints = [], [], 0, []
    for piece in table.pieces():
        prints.append(piece.fingerprint())
        for block in piece.blocks(columns, [label]):
            whole = block.complete()
            dropped += int((~whole).sum())
            rows = block.only(whole)
            X.append(rows.X)
            y.append(np.asarray(rows.labels, dtype=object))
    if not sum(map(len, y)):
        raise InputError(f"expected rows without missing entries in {path.name}, got none; fill the gaps first")
    gaps = (f"{path.name}: {dropped} row{'s' if dropped > 1 else ''} with missing entries left out.",)
    fingerprint = prints[0] if len(prints) == 1 else hash_bytes(*prints)
    return np.concatenate(X), np.concatenate(y), fingerprint, gaps if dropped else ()
