"""The number of cores that this process may use: its affinity, the quota of its container, OMP_NUM_THREADS."""

import os
from functools import cache
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cores() -> int:
    """Cores this process may use, at least 1."""
    allowed, share = [_affinity()], quota()
    if share is not None:
        allowed.append(max(1, round(share)))
    wish = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wish.isdecimal() and int(wish):
        allowed.append(int(wish))
    return min(allowed)


def _affinity() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # a system without affinities
        return os.cpu_count() or 1


@cache
def quota() -> float | None:
    """The share of processors that the control groups of this process allow, in cores, or None."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            found += [_share(*_words(group / "cpu.max", 2)) for group in _groups(CGROUPS, path)]
        elif "cpu" in controllers.split(","):
            for group in _groups(CGROUPS / "cpu", path):
                found.append(_share(*_words(group / "cpu.cfs_quota_us", 1), *_words(group / "cpu.cfs_period_us", 1)))
    return min((share for share in found if share is not None), default=None)


def _groups(top: Path, path: str) -> list[Path]:
    """A control group and all that it is in; a container may see its own as the topmost."""
    inner = top / path.strip("/")
    return [inner, *(parent for parent in inner.parents if parent.is_relative_to(top))]


def _words(path: Path, count: int) -> list[str]:
    try:
        words = path.read_text().split()
    except OSError:
        words = []
    return words if len(words) == count else [""] * count


def _share(limit: str, period: str) -> float | None:
    """Cores, or None where there is no limit ("max", −1) or no such file."""
    if not (limit.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(limit) / int(period)
