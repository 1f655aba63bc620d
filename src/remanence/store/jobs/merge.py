"""Model files merged into one: the model that saw the rows of all, wherever they were learned.

The prior counts once, ledgers are joined, and a piece that two of them have learned is refused, as it would count
twice.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from remanence.errors import FileError, InputError
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.holdings import Holdings
from remanence.store.jobs.piecewise import check_same_undo, joined, with_pieces
from remanence.store.jobs.session import adopted
from remanence.store.model_file import WAIT, ModelFile, locked, read


def merge_files(models: Sequence[str | Path], out: str | Path, wait: float = WAIT) -> ModelFile:
    """Merge model files into `out`, which is new or one of them; the others stay as they are."""
    paths, out = [Path(path) for path in models], Path(out)
    if len(paths) < 2:
        raise InputError(f"expected at least two model files to merge, got {len(paths)}")
    with locked(out, wait) as file:
        if file.exists() and not any(path.exists() and out.samefile(path) for path in paths):
            raise FileError(f"{out} is there already and would be lost; name a new file, or one of those to merge")
        merged = adopted(read(paths[0]), paths[0])
        for path in paths[1:]:
            merged = _joined(merged, adopted(read(path), path), path)
        file.write(merged)
    return merged


def _joined(ours: ModelFile, theirs: ModelFile, path: Path) -> ModelFile:
    notes = _joined_notes(ours, theirs, path)
    try:
        check_same_undo(ours, theirs)
        held = Holdings.of(ours.ledger, ours.notes).merge(Holdings.of(theirs.ledger, theirs.notes))
        learner = joined(ours.learner, theirs.learner)
    except InputError as refusal:
        raise InputError(f"cannot merge {path}: {refusal}") from None
    merged = ModelFile(learner, held.ledger, {**notes, **held.to_notes()})
    if ours.pieces is None or theirs.pieces is None:
        return merged
    return with_pieces(merged, held.ledger, {**ours.pieces, **theirs.pieces})


def _joined_notes(ours: ModelFile, theirs: ModelFile, path: Path) -> dict[str, Any]:
    mine, other = Columns.from_notes(ours.notes), Columns.from_notes(theirs.notes)
    if mine is None or other is None:
        return {**theirs.notes, **ours.notes}
    for what, a, b in (
        ("columns", mine.features, other.features),
        ("label", mine.label, other.label),
        ("targets", mine.targets, other.targets),
        ("kind of label", mine.kind or other.kind, other.kind or mine.kind),
    ):
        if a != b:
            order = " in the same order" if what == "columns" and set(a or ()) == set(b or ()) else ""
            raise InputError(
                f"cannot merge {path}: expected the same {what}{order}, {_short(a)}, got {_short(b)}; "
                f"both models must be taught alike"
            )
    columns = replace(mine, kind=mine.kind or other.kind, ignored=tuple(dict.fromkeys([*mine.ignored, *other.ignored])))
    return {**theirs.notes, **ours.notes, **columns.to_notes()}


def _short(value: Any) -> str:
    return f"{list(value[:8])}{' …' if len(value) > 8 else ''}" if isinstance(value, tuple) else repr(value)
