"""Merging model files: the model that saw the rows of all of them.

The prior counts once, ledgers are joined, and a piece that two of them have learned is an error, as it would count
twice.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError
from remanence.store.content.cutting import DISTINCT
from remanence.store.content.row_keys import DIFFERENT, RowKeys
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.holdings import Holdings
from remanence.store.jobs.piecewise import check_same_undo, merged, with_pieces
from remanence.store.jobs.session import with_first_entry
from remanence.store.model_file import WAIT, ModelFile, locked, read


def merge_files(models: Sequence[str | Path], out: str | Path, wait: float = WAIT) -> ModelFile:
    """Merge model files into `out`, which is new or one of them; the others are not changed."""
    paths, out = [Path(path) for path in models], Path(out)
    if len(paths) < 2:
        raise InputError(f"expected at least two model files to merge, got {len(paths)}")
    with locked(out, wait) as file:
        if file.exists() and not any(path.exists() and out.samefile(path) for path in paths):
            raise FileError(f"{out} exists already and would be lost; name a new file, or one of those to merge")
        model = with_first_entry(read(paths[0]), paths[0])
        for path in paths[1:]:
            model = _merged(model, with_first_entry(read(path), path), path)
        file.write(model)
    return model


def _merged(ours: ModelFile, theirs: ModelFile, path: Path) -> ModelFile:
    notes = _merged_notes(ours, theirs, path)
    try:
        check_same_undo(ours, theirs)
        keys = _merged_keys(ours.row_keys, theirs.row_keys, path)
        held = Holdings.of(ours.ledger, ours.notes).merge(Holdings.of(theirs.ledger, theirs.notes))
        learner = merged(ours.learner, theirs.learner)
    except InputError as problem:
        raise InputError(f"cannot merge {path}: {problem}") from None
    both = ModelFile(learner, held.ledger, {**notes, **held.to_notes()}, row_keys=keys)
    if ours.pieces is None or theirs.pieces is None:
        return both
    return with_pieces(both, held.ledger, {**ours.pieces, **theirs.pieces})


def _merged_keys(ours: RowKeys | None, theirs: RowKeys | None, path: Path) -> RowKeys | None:
    """The keys of the rows of both; rows that both have learned are an error where all are known, else a warning."""
    if ours is None or theirs is None:
        found = theirs if ours is None else ours
        if found is not None and found.every:
            raise InputError("expected two models whose ledgers know every row, got one that does not")
        return found
    both, shared = ours.merged(theirs), ours.shared(theirs)
    if shared and both.every:
        raise InputError(
            f"expected models of different rows to merge, but both have learned {shared:,} equal rows; unlearn them "
            f"from one of the two first"
        )
    if shared >= DISTINCT and min(ours.distinct(), theirs.distinct()) >= DIFFERENT:
        warnings.warn(
            f"about {shared:,} rows of {path} look like rows that the other model has learned too, and count twice now",
            UserWarning,
            stacklevel=4,
        )
    return both


def _merged_notes(ours: ModelFile, theirs: ModelFile, path: Path) -> dict[str, Any]:
    mine, other = Columns.from_notes(ours.notes), Columns.from_notes(theirs.notes)
    if mine is None or other is None:
        return {**theirs.notes, **ours.notes}
    for what, a, b in (
        ("columns", mine.features, other.features),
        ("label", mine.label, other.label),
        ("targets", mine.targets, other.targets),
        ("kinds of columns", _kinds(mine, other), _kinds(other, mine)),
        ("rule for missing entries", mine.gaps, other.gaps),
        ("kind of label", mine.label_kind or other.label_kind, other.label_kind or mine.label_kind),
    ):
        if a != b:
            order = " in the same order" if what == "columns" and set(mine.features) == set(other.features) else ""
            raise InputError(
                f"cannot merge {path}: expected the same {what}{order}, {_short(a)}, got {_short(b)}; "
                f"both models must have learned from the same columns"
            )
    ignored = tuple(dict.fromkeys([*mine.ignored, *other.ignored]))
    columns = replace(mine, label_kind=mine.label_kind or other.label_kind, ignored=ignored)
    return {**theirs.notes, **ours.notes, **columns.to_notes()}


def _kinds(columns: Columns, other: Columns) -> tuple[str, ...]:
    """The kinds of those columns that are of another kind in the other model."""
    mine, theirs = (dict.fromkeys(c.features, "number") | dict(c.kinds or {}) for c in (columns, other))
    return tuple(f"{name}: {kind}" for name, kind in mine.items() if theirs.get(name) != kind)


def _short(value: Any) -> str:
    return f"{list(value[:8])}{' …' if len(value) > 8 else ''}" if isinstance(value, tuple) else repr(value)
