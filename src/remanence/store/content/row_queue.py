"""Rows of a table that were read and not cut into pieces yet, with their keys.

Every row is hashed once, when it comes. Nothing is copied but the rows of a piece that lies across two blocks.
"""

import numpy as np

from remanence.arrays import Array
from remanence.store.jobs.columns import Samples, joined


class RowQueue:
    """Blocks of rows in their order; rows are taken from the front."""

    def __init__(self) -> None:
        self.parts: list[tuple[Samples, Array]] = []  # rows, and their keys (n,)

    def __len__(self) -> int:
        return sum(len(keys) for _, keys in self.parts)

    def push(self, part: Samples) -> None:
        """Add a block behind the others."""
        if len(part.X):
            self.parts.append((part, part.keys()))

    def keys(self) -> Array:
        """The keys of all rows, (n,)."""
        found = [keys for _, keys in self.parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def rows(self, first: int, count: int) -> Samples:
        """So many rows from a place on."""
        found, done, end = [], 0, first + count
        for part, keys in self.parts:
            start, stop = max(first - done, 0), min(end - done, len(keys))
            if start < stop:
                found.append(part if stop - start == len(keys) else part.only(slice(start, stop)))
            done += len(keys)
        return joined(found)

    def drop(self, count: int) -> None:
        """Forget so many rows at the front."""
        left = []
        for part, keys in self.parts:
            gone = min(count, len(keys))
            count -= gone
            if gone < len(keys):
                left.append((part.only(slice(gone, None)) if gone else part, keys[gone:]))
        self.parts = left
