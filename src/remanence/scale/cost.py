"""What learning on a cluster costs: seconds, bytes that travel, and memory, from a few measured speeds.

    learn   rows / workers · (fold + read)       every worker its share of the rows
    merge   merges on the longest path · (merge + triangle / bandwidth)
    memory  (5 + levels of merges) / 2 roots + a partition      of a worker that does all the work, see tree.py

A fold of n rows into a d × d factor takes 2nd² + 2ndc floating-point operations, a merge of two factors ⅔d³ + d²c.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from remanence.errors import InputError
from remanence.estimators import ContinualClassifier
from remanence.scale.tree import FAN, chain_length
from remanence.validation import check_count, check_number


@dataclass(frozen=True)
class CostPlan:
    """An estimate of a distributed fit; `plan` makes it.

    Parameters
    ----------
    seconds : float
        From the first row to the model.
    learn_seconds, merge_seconds : float
        Of them, reading and folding rows; merging and sending roots.
    bytes_sent : float
        Between workers, in all.
    worker_bytes : float
        Memory of a worker: square roots and one partition.
    partitions : int
    workers_used : int
        Chains of partitions may be fewer than workers.

    Examples
    --------
    >>> import remanence as rm
    >>> print(rm.scale.plan(10**6, 256, 10, workers=4, flops=1e10))
    3.73 s (3.71 learning, 0.0147 merging) on 4 workers, 21 partitions; 0.00213 GB travel; 0.103 GB of memory per worker
    """

    seconds: float
    learn_seconds: float
    merge_seconds: float
    bytes_sent: float
    worker_bytes: float
    partitions: int
    workers_used: int

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3g} s ({self.learn_seconds:.3g} learning, {self.merge_seconds:.3g} merging) on "
            f"{self.workers_used} workers, {self.partitions} partitions; {self.bytes_sent / 1e9:.3g} GB travel; "
            f"{self.worker_bytes / 1e9:.3g} GB of memory per worker"
        )


def plan(
    rows: int,
    features: int,
    classes: int,
    workers: int,
    *,
    partitions: int | None = None,
    bandwidth: float = 1e9,
    read: float = 0.0,
    flops: float | None = None,
    itemsize: int = 8,
) -> CostPlan:
    """Estimate seconds, bytes and memory of a distributed fit.

    Parameters
    ----------
    rows, features, classes, workers : int
    partitions : int, optional
        By default one per 100 MB of rows, and at least four per worker.
    bandwidth : float
        Bytes per second between two workers.
    read : float
        Seconds a worker needs to read or make one row.
    flops : float, optional
        Floating-point operations per second of one worker while it learns rows; by default measured here, in a second
        or two.
    itemsize : int
        Bytes of a number: 8, or 4 for dtype="float32".

    Returns
    -------
    CostPlan

    Examples
    --------
    >>> import remanence as rm
    >>> found = rm.scale.plan(10**9, 1024, 100, workers=1000, flops=2e10)
    >>> found.workers_used
    1000
    """
    n, d, c, w = (
        check_count(value, name)
        for value, name in ((rows, "rows"), (features, "features"), (classes, "classes"), (workers, "workers"))
    )
    for value, name in ((bandwidth, "bandwidth"), (flops, "flops")):
        if value is not None:
            check_number(value, name)
    check_number(read, "read", closed=True)
    if itemsize not in (4, 8):
        raise InputError(f"expected itemsize to be 8 or 4, got {itemsize!r}")
    if partitions is None:
        partitions = max(4 * w, math.ceil(n * (d + 1) * itemsize / 1e8))
    else:
        check_count(partitions, "partitions")
    if flops is None:
        flops = measured_flops(d, c)
    chains = -(-partitions // chain_length(partitions))
    used = min(w, chains)
    fold = (2 * d * d + 2 * d * c) / flops
    merge = (2 / 3 * d**3 + d * d * c) / flops
    sent = itemsize * (d * (d + 1) / 2 + d * c)
    longest, levels = _longest_path(chains)
    learn = n * math.ceil(chains / used) / chains * (fold + read)
    merging = longest * (merge + sent / bandwidth)
    memory = (5 + max(levels, 1)) / 2 * itemsize * (d * d + d * c) + n / partitions * (d + c) * itemsize
    return CostPlan(learn + merging, learn, merging, (chains - 1) * sent * (used - 1) / used, memory, partitions, used)


def _longest_path(chains: int) -> tuple[int, int]:
    """Merges one after the other between the last chain and the model, and their levels."""
    longest, levels, count = 0, 0, chains
    while count > 1:
        longest, levels, count = longest + min(count, FAN) - 1, levels + 1, -(-count // FAN)
    return longest, levels


def measured_flops(features: int, outputs: int, seconds: float = 0.5) -> float:
    """Operations per second of learning rows here, on this many features (or 1 000): folding and all beside it."""
    d, c = min(features, 1000), min(outputs, 100)
    X, y = np.random.default_rng(0).standard_normal((4000, d)), np.arange(4000) % c
    model = ContinualClassifier().partial_fit(X, y)
    rows, started, spent = 0, time.perf_counter(), 0.0
    while spent < seconds:
        model.partial_fit(X, y)
        rows, spent = rows + len(X), time.perf_counter() - started
    return rows * (2 * d * d + 2 * d * c) / spent
