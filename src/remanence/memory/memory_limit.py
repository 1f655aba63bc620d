"""Whether a memory fits this machine, asked before it is begun: an allocation may fail only hours later."""

import os

from remanence.errors import InputError

GIB = 2**30


def memory() -> float:
    """The bytes this process may have: of the machine, or of its own limit where that is lower; unknown is infinite."""
    sizes = [float("inf")]
    if os.name == "posix":
        import resource

        sizes.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            sizes.append(float(limit))
    return min(sizes)


def check_memory(needed: float, features: int) -> None:
    """Refuse a number of features whose triangular factors do not fit."""
    if needed > (there := memory()):
        raise InputError(
            f"expected features that RLS can hold in memory, got {features}: their factors take {needed / GIB:.3g} "
            f"GiB, and there are {there / GIB:.3g} GiB; use LowRankRLS, whose memory grows with features times rank, "
            f"or fewer features"
        )
