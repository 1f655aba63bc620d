"""What a model file keeps of single rows: the keys of all of them, or a sample that tells whether rows look familiar.

    familiar rows ≈ rows of the sample that are known · 2⁶⁴ / limit                                               (F)

The sample has the keys (64 bits) below a limit that is lowered when there are more than MOST of them, so that small
models keep all and large ones a quarter of a megabyte. It answers approximately; `every` keeps 16 bytes for every row
and answers exactly. Rows that are unlearned leave both.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.hashing import ROW_KEY, key_words

MOST = 1 << 15  # keys of a sample
TOP = 1 << 64
DIFFERENT = 0.9  # share of distinct rows from which on rows are told from one another


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of the rows of a model, sorted, as often as they are in it."""

    words: Array  # (k,) uint64, or (k,) "S16" if all are kept
    limit: int = TOP  # keys from here on are not in the sample

    @classmethod
    def empty(cls, every: bool) -> "RowKeys":
        """The keys of no rows; `every` keeps all 16 bytes of all of them."""
        return cls(np.empty(0, f"S{ROW_KEY}" if every else np.uint64))

    @property
    def every(self) -> bool:
        """Whether all rows are known."""
        return self.words.dtype.kind == "S"

    @property
    def are_all(self) -> bool:
        """Whether the sample has left out no row so far, so that nothing of it is estimated."""
        return self.limit >= TOP

    def _own(self, keys: Array) -> Array:
        if self.every:
            return keys
        words = key_words(keys)
        return words if self.limit >= TOP else words[words < np.uint64(self.limit)]

    def count(self, keys: Array) -> Array:
        """How often each of these entries of `words` is there, (n,)."""
        return np.searchsorted(self.words, keys, "right") - np.searchsorted(self.words, keys, "left")

    def familiar(self, keys: Array) -> int:
        """How many of these rows are in the model, at least about (F)."""
        there = int((self.count(self._own(keys)) > 0).sum())
        return there if self.limit >= TOP else round(there * TOP / self.limit)

    def distinct(self) -> float:
        """The share of the rows that are different from all others."""
        return float((self.words[1:] != self.words[:-1]).mean()) if len(self.words) > 1 else 1.0

    def with_rows(self, keys: Array) -> "RowKeys":
        """With these rows."""
        both = np.concatenate([self.words, np.sort(self._own(keys))])  # (two sorted runs, which are merged quickly)
        return replace(self, words=np.sort(both, kind="stable"))._bounded()

    def without_rows(self, keys: Array) -> "RowKeys":
        """Without these rows, each as often as it is given; those that are not there are ignored."""
        gone, times = np.unique(self._own(keys), return_counts=True)
        if not len(gone) or not len(self.words):
            return self
        start, end = np.searchsorted(self.words, gone, "left"), np.searchsorted(self.words, gone, "right")
        kept = np.ones(len(self.words), bool)
        for first, count in zip(start.tolist(), np.minimum(times, end - start).tolist(), strict=True):
            kept[first : first + count] = False
        return replace(self, words=self.words[kept])

    def merged(self, other: "RowKeys") -> "RowKeys":
        """The rows of two models."""
        if self.every != other.every:
            raise InputError("expected two models that both know every row, or that both do not, got one of each")
        limit = min(self.limit, other.limit)
        words = np.sort(np.concatenate([self.words, other.words]), kind="stable")
        if not self.every and limit < TOP:
            words = words[words < np.uint64(limit)]
        return RowKeys(words, limit)._bounded()

    def shared(self, other: "RowKeys") -> int:
        """How many rows two models share, at least about (F)."""
        limit = min(self.limit, other.limit)
        # (a table of keys would overflow in NumPy 2.0)
        there = int(np.isin(other.words, self.words, kind="sort").sum()) if len(other.words) and len(self.words) else 0
        return there if limit >= TOP else round(there * TOP / limit)

    def _bounded(self) -> "RowKeys":
        words, limit = self.words, self.limit
        while not self.every and len(words) > MOST:
            limit //= 2
            words = words[words < np.uint64(limit)]
        return RowKeys(words, limit)

    def new_rows(self, keys: Array, used: dict[int, int]) -> Array:
        """Which rows of a file are not in the model yet, (n,): a row that is k times in it is known k times.

        `used` counts what earlier rows of the file have used up, and is updated.
        """
        found, where, times = np.unique(keys, return_inverse=True, return_counts=True)
        start, have = np.searchsorted(self.words, found, "left"), self.count(found)
        left = have - np.array([used.get(int(i), 0) if n else 0 for i, n in zip(start, have, strict=True)], int)
        for i, n, m, k in zip(start.tolist(), have.tolist(), times.tolist(), left.tolist(), strict=True):
            if n:
                used[i] = used.get(i, 0) + min(m, k)
        order = np.argsort(where, kind="stable")
        rank = np.empty(len(keys), int)
        rank[order] = np.arange(len(keys)) - np.repeat(np.cumsum(times) - times, times)
        return np.asarray(rank >= left[where])

    def to_arrays(self) -> dict[str, Any]:
        """The keys as a model file stores them."""
        words = self.words.view(np.uint64).reshape(-1, 2) if self.every else self.words
        return {"words": np.ascontiguousarray(words).view(np.int64), "limit": str(self.limit)}

    @classmethod
    def from_arrays(cls, stored: Any) -> "RowKeys":
        """The inverse of `to_arrays`; raises ValueError for anything else."""
        words, limit = np.asarray(stored["words"]), int(stored["limit"])
        if words.dtype != np.int64 or not 0 < limit <= TOP:
            raise ValueError("expected keys of rows")
        if words.ndim == 2 and words.shape[1] == 2:
            found = np.ascontiguousarray(words).view(f"S{ROW_KEY}").reshape(-1)
        elif words.ndim == 1:
            found = words.view(np.uint64)
        else:
            raise ValueError("expected keys of rows")
        if (found[1:] < found[:-1]).any():
            raise ValueError("expected sorted keys of rows")
        return cls(found, limit)
