"""Interleaved measurement: A, B, C, A, B, C, …, the best of each, on one thread unless said otherwise.

What disturbs the machine for a while then disturbs every side, and the best of several rounds is what each can do.
Seconds are those of the processor: one thread never waits, so on a quiet machine they are the seconds on the wall, and
on a busy one a long call is not charged for the programs it had to make room for. Several threads can only be measured
on the wall, and on cores that are free.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.rows import Effort


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of every round, and what each callable returned when it was warmed up."""

    seconds: dict[str, tuple[float, ...]]
    results: dict[str, Any]

    def best(self, name: str, per: int = 1) -> float:
        """The seconds of the best round, for each of `per` rows."""
        return min(self.seconds[name]) / per

    def pairs(self, ours: str, theirs: str, per: int = 1, peer_per: int = 1) -> tuple[tuple[float, float], ...]:
        """The seconds of both sides in every round, for each row."""
        both = zip(self.seconds[ours], self.seconds[theirs], strict=True)
        return tuple((a / per, b / peer_per) for a, b in both)


def threads() -> int:
    """The largest number of threads that a loaded numerical library would use."""
    from threadpoolctl import threadpool_info

    return max((pool["num_threads"] for pool in threadpool_info()), default=1)


@contextmanager
def one_thread() -> Iterator[bool]:
    """Holds every numerical library to one thread; yields whether that had to be enforced."""
    import scipy.linalg  # noqa: F401  # (a library is only limited once it is loaded)
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits

    enforced = threads() > 1
    with threadpool_limits(1):
        yield enforced


def measure(calls: Mapping[str, Callable[[], Any]], effort: Effort, on_the_wall: bool = False) -> Measured:
    """Time every callable `effort.rounds` times in turn, at least twice, stopping early after `effort.seconds`.

    Each is called once beforehand, to compile and warm up. Refuses to run on more than one thread unless it measures
    seconds on the wall.
    """
    clock = time.perf_counter if on_the_wall else time.process_time
    if (found := threads()) > 1 and not on_the_wall:
        raise RuntimeError(
            f"expected one thread in every numerical library, got {found}; measure inside `with one_thread():` "
            f"or start with OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1, as `make bench` does"
        )
    results = {name: call() for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    collecting, begun = gc.isenabled(), time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        for done in range(max(effort.rounds, 1)):
            if done >= min(2, effort.rounds) and time.perf_counter() - begun > effort.seconds:
                break
            for name, call in calls.items():
                start = clock()
                call()
                seconds[name].append(clock() - start)
    finally:
        if collecting:
            gc.enable()
    return Measured({name: tuple(values) for name, values in seconds.items()}, results)
