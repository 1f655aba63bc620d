"""Workers that die, and workers that leave: the same bits, and no partition counted twice."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import remanence as rm

dask = pytest.importorskip("dask")
from distributed import Client, LocalCluster  # noqa: E402

BLOCKS = 24


def block(i):
    """Rows that take a moment to make."""
    rng = np.random.default_rng(i)
    time.sleep(0.02)
    return rng.standard_normal((50, 20)) * np.logspace(0, -6, 20), rng.integers(0, 4, 50)


def blocks():
    return [dask.delayed(block)(i) for i in range(BLOCKS)]


@pytest.fixture(scope="module")
def expected():
    return rm.scale.fit(rm.ContinualClassifier(), blocks())


def killed_in_the_middle(seed, expected, digest):
    delay = np.random.default_rng(seed).uniform(0, 0.5)
    with (
        dask.config.set({"distributed.admin.log-format": "", "logging.distributed": "critical"}),
        LocalCluster(3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(delay, os.kill, (victim, signal.SIGKILL)).start()
        found = rm.scale.fit(rm.ContinualClassifier(), blocks(), client=client)
    assert digest(found) == digest(expected) and found.n_seen_ == 50 * BLOCKS


def test_a_worker_is_killed(expected, digest):
    killed_in_the_middle(0, expected, digest)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 20))
def test_workers_are_killed_at_random_moments(expected, digest, seed):
    killed_in_the_middle(seed, expected, digest)


@pytest.mark.sweep  # (rarely the cluster itself waits for the worker that left)
def test_a_worker_leaves(expected, digest):
    with (
        LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        first = next(iter(client.scheduler_info()["workers"]))
        threading.Timer(0.2, client.retire_workers, ([first],)).start()
        found = rm.scale.fit(rm.ContinualClassifier(), blocks(), client=client)
    assert digest(found) == digest(expected) and found.n_seen_ == 50 * BLOCKS
