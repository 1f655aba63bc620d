"""How many directions of a layer's inputs a memory of bounded size keeps: by number, by energy or by bytes."""

from collections.abc import Iterable

from remanence.deep.nn.layers import WeightMatrix
from remanence.errors import InputError
from remanence.validation import check_count, check_number

LOW_RANK = 256  # directions a layer


def memory_bounds(
    memory: str, rank: float | None, max_bytes: int | None, matrices: Iterable[WeightMatrix]
) -> tuple[int | None, float]:
    """Return the largest number of directions of a layer, None for all, and the share of the energy to keep."""
    if memory not in ("full", "lowrank") or (memory == "full" and (rank is not None or max_bytes is not None)):
        raise InputError(
            f"expected memory 'full', or 'lowrank' with a rank or max_bytes, got {memory!r} with rank {rank!r} and "
            f"max_bytes {max_bytes!r}"
        )
    if memory == "full":
        return None, 1.0
    if rank is not None and max_bytes is not None:
        raise InputError(f"expected rank or max_bytes, got both ({rank!r} and {max_bytes!r}); leave one out")
    if max_bytes is not None:
        return _directions_in(check_count(max_bytes, "max_bytes"), matrices), 1.0
    if isinstance(rank, float):
        hint = "a share of the energy, or an integer number of directions"
        return LOW_RANK, check_number(rank, "rank", high=1.0, hint=hint)
    return check_count(LOW_RANK if rank is None else rank, "rank"), 1.0


def _directions_in(room: int, matrices: Iterable[WeightMatrix]) -> int:
    """Return how many directions fit; a layer with fewer inputs than that leaves its room to the others."""
    shapes = [matrix.shape for matrix in matrices]
    fixed = sum(8 * groups * (outputs + 1) for groups, outputs, _ in shapes)  # the sums of what was cut off

    def needed(rank: int) -> int:  # a root and the directions taken from it, both with their outputs, in float64
        return fixed + sum(16 * g * (inputs + outputs) * min(rank, inputs) for g, outputs, inputs in shapes)

    low, high = 0, max((inputs for *_, inputs in shapes), default=1)
    if needed(1) > room:
        raise InputError(
            f"expected max_bytes of at least {needed(1)}, which one direction of every layer needs, got {room}"
        )
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= room else (low, middle - 1)
    return low
