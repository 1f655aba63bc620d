"""A stream whose tasks are files: one task per file, in the order they were given."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remanence.cli.run_options.streams import GROWING, Asked, Source, column_arguments
from remanence.cli.run_options.table_rows import labelled_rows
from remanence.errors import InputError
from remanence.hashing import hash_bytes
from remanence.streams import Task
from remanence.streams.holdout import divide


def tasks_of_files(asked: Asked, paths: Sequence[Path]) -> Source:
    """One task per file; a fraction of each class of each file is held out for testing."""
    if asked.tasks not in (None, len(paths)) or asked.order != Asked.order:
        option = "--order" if asked.order != Asked.order else "--tasks"
        raise InputError(f"expected no {option} with {len(paths)} files: each is a task, in the order given")
    files = labelled_rows(paths, asked.label, asked.ignore)
    names = task_names(paths)

    def build(seed: int) -> list[Task]:
        return [
            Task(name, *divide(rows.X, rows.y, asked.test, np.random.default_rng((seed, k)), labels=True))
            for k, (name, rows) in enumerate(zip(names, files, strict=True))
        ]

    build(0)  # raises errors about the split before any training
    settings: dict[str, Any] = {"files": list(map(str, paths)), "label": asked.label, "ignore": list(asked.ignore)}
    settings |= {"test": asked.test, "fingerprint": hash_bytes(*(rows.fingerprint for rows in files))}
    arguments = column_arguments(asked) + ([] if asked.test == Asked.test else ["--test", f"{asked.test:g}"])
    labels = [set(rows.y.tolist()) for rows in files]
    disjoint = sum(map(len, labels)) == len(set().union(*labels))
    notes = [note for rows in files for note in rows.notes]
    return Source(
        ", ".join(asked.names), len(paths), build, settings, tuple(arguments), (*notes, *(GROWING if disjoint else ()))
    )


def task_names(paths: Sequence[Path]) -> list[str]:
    """The names of the files without their ending, or whole where two would be the same."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else list(map(str, paths))
