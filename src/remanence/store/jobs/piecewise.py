"""One learner for every piece beside the learner of all, so that a whole piece goes out without rounding.

    model = merge of its pieces, in the order of the ledger                                                     (P)

Taking a piece out is a merge of the others: its numbers are never subtracted, so that a file of wild numbers leaves no
trace. Rows of a piece go out of that piece alone. The price is one memory, d² numbers, for every piece.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from remanence.errors import InputError
from remanence.store.jobs.session import keeps_all, rows_of
from remanence.store.ledger import Ledger
from remanence.store.model_file import ModelFile


def joined(ours: Any, theirs: Any) -> Any:
    """The learner that saw the rows of both; each of them stays as it is."""
    if not rows_of(theirs):
        return ours
    if not rows_of(ours):
        return theirs
    return copy.copy(ours).merge(theirs)


def with_piece(model: ModelFile, mark: str, learner: Any) -> ModelFile:
    """With one more piece, the last of all (P)."""
    assert model.pieces is not None
    pieces = {**model.pieces, **({mark: learner} if rows_of(learner) else {})}
    return replace(model, learner=joined(model.learner, learner), pieces=pieces)


def with_pieces(model: ModelFile, ledger: Ledger, pieces: Mapping[str, Any]) -> ModelFile:
    """With these pieces in the place of what it had, merged in the order of the ledger (P)."""
    from sklearn.base import clone

    kept = {mark: pieces[mark] for mark in ledger.in_force() if mark in pieces and rows_of(pieces[mark])}
    learner = clone(model.learner)
    for piece in kept.values():
        learner = joined(learner, piece)
    return replace(model, learner=learner, ledger=ledger, pieces=kept)


def check_same_undo(ours: ModelFile, theirs: ModelFile) -> None:
    """Refuse to merge a model that keeps its pieces with one that does not."""
    if (ours.pieces is None) != (theirs.pieces is None):
        raise InputError("expected two models that keep a learner for every piece, or two that do not, got one of each")


def check_method(learner: Any) -> None:
    """Refuse learners whose pieces cannot be merged."""
    if not keeps_all(learner):
        raise InputError(
            f"expected RLS with forget=1 to keep a learner for every piece, got {learner.method}; its pieces cannot be "
            f"merged"
        )


def problem(learner: Any, ledger: Ledger, pieces: Mapping[Any, Any]) -> str:
    """Why these cannot be the pieces of a model, in words; empty if they can."""
    held = ledger.in_force()
    if not all(mark in held for mark in pieces):
        return "expected learners of pieces that the ledger has"
    if not all(type(piece) is type(learner) for piece in pieces.values()):
        return f"expected a {type(learner).__name__} for every piece"
    if sum(map(rows_of, pieces.values())) != rows_of(learner):
        return f"expected pieces of {rows_of(learner)} rows together, got {sum(map(rows_of, pieces.values()))}"
    return ""


def chosen(parts: Iterable[Any], places: Iterable[int]) -> Iterable[Any]:
    """The rows of a piece at these places, block by block."""
    import numpy as np

    wanted = np.array(sorted(places), int)
    for part in parts:
        yield part.only(np.isin(part.places, wanted))
