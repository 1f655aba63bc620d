"""The order in which partitions are learned and merged: fixed by their number alone.

    partitions   0 1 2 3 | 4 5 6 7 | 8 9 …
    chains       each learns up to CHAIN partitions, one after the other, into one square root
    merges       up to FAN neighbouring roots, one after the other; then again, until one is left

Which worker does what, and when, changes nothing in that order, so the result has the same bits on any cluster, and
after any task was computed again. A worker that does everything itself holds three roots at a time (a merged one, the
one being learned, its successor), and one more for every further level of merges.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

CHAIN = 4  # partitions of a chain, where there are enough of them to share
SHARED = 16  # chains that keep a small cluster busy
FAN = 16  # roots merged one after the other

Learned = TypeVar("Learned")
Item = TypeVar("Item")


def neighbours(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """The items in order, up to `size` at a time."""
    return [items[i : i + size] for i in range(0, len(items), size)]


def chain_length(partitions: int) -> int:
    """How many partitions are learned one after the other."""
    return min(CHAIN, -(-partitions // SHARED))


def reduced(
    blocks: Sequence[Item],
    learn: Callable[[Learned | None, Item], Learned],
    merge: Callable[[Learned, Learned], Learned],
) -> Learned:
    """What all blocks teach; `learn(None, block)` begins a chain, `merge` takes the earlier rows first."""
    level = []
    for chain in neighbours(blocks, chain_length(len(blocks))):
        learned = learn(None, chain[0])
        for block in chain[1:]:
            learned = learn(learned, block)
        level.append(learned)
    while len(level) > 1:
        above = []
        for group in neighbours(level, FAN):
            learned = group[0]
            for other in group[1:]:
                learned = merge(learned, other)
            above.append(learned)
        level = above
    return level[0]
