"""The rows of a table with the class of each, all of them in memory; rows with missing entries are left out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remanence.cli.run_options.streams import Rows
from remanence.errors import InputError
from remanence.hashing import hash_bytes
from remanence.labels import as_labels
from remanence.tables import open_table


def labelled_rows(path: Path, label: str, ignore: Sequence[str] = ()) -> Rows:
    """Numbers and classes of a CSV, NPZ or Parquet file."""
    table = open_table(path)
    if not label:
        raise InputError(
            f"expected --label, the column of {path.name} that holds the classes; it has the columns "
            f"{', '.join(map(repr, table.columns[-10:]))}"
        )
    columns = table.features([label], list(ignore))
    X, y, dropped, prints = [], [], 0, []
    for piece in table.pieces():
        prints.append(piece.fingerprint())
        for block in piece.blocks(columns, [label]):
            whole = block.complete()
            dropped += int((~whole).sum())
            rows = block.only(whole)
            X.append(rows.X)
            y.append(np.asarray(rows.labels, dtype=object))
    classes = as_labels(np.concatenate(y))
    if not len(classes):
        raise InputError(f"expected rows without missing entries in {path.name}, got none; fill the gaps first")
    if classes.dtype.kind == "O":
        classes = as_labels(classes.astype(str))
    if classes.dtype.kind == "f" and (classes != np.round(classes)).any():
        raise InputError(
            f"expected classes in column {label!r} of {path.name}, got real numbers; run compares classifiers, choose "
            "a column of classes"
        )
    gaps = (f"{dropped} row{'s' if dropped > 1 else ''} with missing entries left out.",) if dropped else ()
    fingerprint = prints[0] if len(prints) == 1 else hash_bytes(*prints)
    return Rows(np.concatenate(X), classes, fingerprint=fingerprint, notes=gaps)
