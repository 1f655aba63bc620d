"""Every benchmark by its name, in groups. A new group is a file with a dict BENCHMARKS and one line here."""

from fnmatch import fnmatch

from benchmarks import (
    batches,
    choices,
    classifier,
    decomposition,
    deep,
    files,
    kalman,
    linear_track,
    live,
    memory,
    predict,
    scale,
)
from benchmarks.rows import Benchmark

GROUPS: dict[str, dict[str, Benchmark]] = {
    "linear_track": linear_track.BENCHMARKS,
    "batches": batches.BENCHMARKS,
    "classifier": classifier.BENCHMARKS,
    "predict": predict.BENCHMARKS,
    "choices": choices.BENCHMARKS,
    "live": live.BENCHMARKS,
    "memory": memory.BENCHMARKS,
    "files": files.BENCHMARKS,
    "kalman": kalman.BENCHMARKS,
    "decomposition": decomposition.BENCHMARKS,
    "deep": deep.BENCHMARKS,
    "scale": scale.BENCHMARKS,
}


def chosen(patterns: list[str]) -> list[tuple[str, str, Benchmark]]:
    """Group, name and function of the benchmarks whose group or name matches a pattern; all if there is none."""
    everything = [(group, name, run) for group, members in GROUPS.items() for name, run in members.items()]
    if not patterns:
        return everything
    for pattern in patterns:
        if not any(fnmatch(group, pattern) or fnmatch(name, pattern) for group, name, _ in everything):
            names = ", ".join([*GROUPS, *(name for _, name, _ in everything)])
            raise SystemExit(f"expected a group or a benchmark, got {pattern!r}; try one of {names}")
    return [entry for entry in everything if any(fnmatch(entry[0], p) or fnmatch(entry[1], p) for p in patterns)]
