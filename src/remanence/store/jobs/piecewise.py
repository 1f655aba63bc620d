"""One learner per piece beside the model of all, so that a whole piece can be removed without rounding.

    model = merge of its pieces, in the order of the ledger                                                     (P)

Removing a piece is a merge of the others: its numbers are never subtracted, so that a file of huge numbers leaves no
trace. Single rows are removed from the learner of their piece. The cost is one memory of d² numbers per piece.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from remanence.errors import InputError
from remanence.store.jobs.session import keeps_all, rows_of
from remanence.store.ledger import Ledger
from remanence.store.model_file import ModelFile


def merged(ours: Any, theirs: Any) -> Any:
    """The learner that saw the rows of both; neither is changed."""
    if not rows_of(theirs):
        return ours
    if not rows_of(ours):
        return theirs
    return copy.copy(ours).merge(theirs)


def with_piece(model: ModelFile, mark: str, learner: Any) -> ModelFile:
    """The model with one more piece, the last (P)."""
    assert model.pieces is not None
    pieces = {**model.pieces, **({mark: learner} if rows_of(learner) else {})}
    return replace(model, learner=merged(model.learner, learner), pieces=pieces)


def with_pieces(model: ModelFile, ledger: Ledger, pieces: Mapping[str, Any]) -> ModelFile:
    """The model made of these pieces instead of its own, merged in the order of the ledger (P)."""
    from sklearn.base import clone

    kept = {mark: pieces[mark] for mark in ledger.in_force() if mark in pieces and rows_of(pieces[mark])}
    learner = clone(model.learner)
    for piece in kept.values():
        learner = merged(learner, piece)
    return replace(model, learner=learner, ledger=ledger, pieces=kept)


def check_same_undo(ours: ModelFile, theirs: ModelFile) -> None:
    """Raise an InputError if only one of two models keeps a learner per piece."""
    if (ours.pieces is None) != (theirs.pieces is None):
        raise InputError("expected two models that keep a learner for every piece, or two that do not, got one of each")


def check_mergeable(learner: Any) -> None:
    """Raise an InputError for learners whose pieces cannot be merged."""
    if not keeps_all(learner):
        raise InputError(
            f"expected RLS with forget=1 to keep a learner for every piece, got {learner.method}; its pieces cannot be "
            f"merged"
        )


def pieces_problem(learner: Any, ledger: Ledger, pieces: Mapping[Any, Any]) -> str:
    """Why these cannot be the pieces of a model; empty if they can."""
    held = ledger.in_force()
    if not all(mark in held for mark in pieces):
        return "expected learners of pieces that the ledger has"
    if not all(type(piece) is type(learner) for piece in pieces.values()):
        return "expected an estimator of the model's class for every piece"
    if sum(map(rows_of, pieces.values())) != rows_of(learner):
        return f"expected pieces of {rows_of(learner)} rows in total, got {sum(map(rows_of, pieces.values()))}"
    return ""


def rows_at(parts: Iterable[Any], places: Iterable[int]) -> Iterable[Any]:
    """The rows of a piece at these places, block by block."""
    import numpy as np

    wanted = np.array(sorted(places), int)
    for part in parts:
        yield part.only(np.isin(part.places, wanted))
