"""Sparse rows: which methods take them as they are, which some dense rows at a time, and up to which width."""

from typing import Any

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.kalman.streaming import Kalman
from remanence.memory.sparse.sparse_rows import is_sparse, rows_at_once
from remanence.methods import RLS, LowRankRLS
from remanence.methods.protocol import Method
from remanence.validation import check_finite, check_memory

WIDEST = 20_000  # columns of sparse rows up to which a memory of d² numbers is offered
HINT = (
    "use LowRankRLS(rank=100), which keeps only the strongest directions, or hash the columns to fewer "
    "(HashingVectorizer or FeatureHasher of scikit-learn, n_features=2**12)"
)


def check_width(X: Any, method: Method[Any], outputs: int) -> None:
    """Raise an InputError where sparse rows are wider than a method can remember."""
    if not is_sparse(X):
        return
    d = float(X.shape[1])
    quadratic = (isinstance(method, RLS) and method.forget != 0) or isinstance(method, Kalman)
    if quadratic and d > WIDEST:
        raise InputError(
            f"expected sparse X of at most {WIDEST} columns with {type(method).__name__}, whose memory is d², got "
            f"{X.shape[1]} columns; {HINT}"
        )
    rows = 4 * min(method.rank, d) if isinstance(method, LowRankRLS) else 16  # dense rows at once, or directions
    check_memory(8 * d * (rows + 3 * outputs), f"{method} with {X.shape[1]} columns", f"use a smaller rank, or {HINT}")


def parts_of(X: Any, method: Method[Any]) -> list[slice]:
    """The parts of checked rows that are learned one after the other: one, but of sparse rows that are made dense."""
    n, d = X.shape
    if not is_sparse(X) or isinstance(method, LowRankRLS):
        return [slice(0, n)]
    if method.task_per_update:  # one call is one task, not to be cut
        check_memory(8.0 * n * d, f"{n} rows of {d} columns", "pass fewer rows at once")
        return [slice(0, n)]
    size = rows_at_once(d)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def part_of(X: Any, part: slice, method: Method[Any]) -> Any:
    """A part as the method takes it: dense, or sparse by rows."""
    rows = X if part == slice(0, X.shape[0]) else X[part]
    return rows if not is_sparse(X) or isinstance(method, LowRankRLS) else rows.toarray()


def check_finite_rows(X: Any, name: str) -> None:
    """Raise an InputError for NaN, infinity and numbers whose squares overflow."""
    entries: Array = X.data if is_sparse(X) else X
    check_finite(entries, name)
