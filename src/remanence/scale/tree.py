"""The order in which partitions are learned and merged: fixed by their number alone.

    partitions   0 1 2 3 | 4 5 6 7 | 8 9 …
    chains       each learns up to CHAIN partitions, one after the other, into one square root
    merges       up to FAN neighbouring roots, one after the other; then again, until one is left

Which worker does what, and when, changes nothing in that order, so the result has the same bits on any cluster, and
after any task was computed again. Roots that wait are packed triangles, half a root each (travel.py). A worker that
does everything itself needs the memory of three roots up to 64 partitions: the two that it merges, in place, and what
they were unpacked from. Every further level of merges adds one that waits: 3½ up to 1 024 partitions, 4 up to 16 384.
Three for any number would take a single level, and thus as many merges one after the other as there are chains,
whatever the number of workers. Workers that wait for each other hold finished chains besides.
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
    learn: Callable[[Sequence[Item]], Learned],
    merge: Callable[[Learned, Learned], Learned],
) -> Learned:
    """What all blocks teach; `learn` takes the blocks of a chain, `merge` the earlier rows first."""
    level = [learn(chain) for chain in neighbours(blocks, chain_length(len(blocks)))]
    while len(level) > 1:
        above = []
        for group in neighbours(level, FAN):
            learned = group[0]
            for other in group[1:]:
                learned = merge(learned, other)
            above.append(learned)
        level = above
    return level[0]
