"""Workers that die, and workers that leave: the same bits, and no partition counted twice."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

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
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(delay, os.kill, (victim, signal.SIGKILL)).start()
        found = rm.scale.fit(rm.ContinualClassifier(), blocks(), client=client)
    assert digest(found) == digest(expected) and found.n_seen_ == 50 * BLOCKS


@pytest.mark.sweep  # (processes are heavy: `test_a_worker_leaves` is the quick one)
@pytest.mark.parametrize("seed", range(20))
def test_workers_are_killed_at_random_moments(expected, digest, seed):
    killed_in_the_middle(seed, expected, digest)


@pytest.mark.sweep
def test_a_driver_that_was_killed_goes_on_to_the_same_bits(tmp_path, kills=50):
    command = [sys.executable, str(Path(__file__).with_name("driver_kills.py")), str(tmp_path), str(kills), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == kills and found["finished"] >= 1
    assert found["other bits"] == 0 and found["left"] == []
    assert any(0 < pieces < 60 for pieces in found["pieces at a kill"]), "no kill fell into a run"


def test_a_worker_leaves(expected, digest):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        first, _ = client.nthreads()  # (without the other one the cluster would wait for a new worker)
        threading.Timer(0.2, client.retire_workers, ([first],)).start()
        found = rm.scale.fit(rm.ContinualClassifier(), blocks(), client=client)
    assert digest(found) == digest(expected) and found.n_seen_ == 50 * BLOCKS


def test_what_kills_every_worker_is_named():
    from distributed import KilledWorker

    from remanence.scale.engine import explained

    with pytest.raises(rm.InputError, match=r"what partition 3 needs.*more memory"), explained():
        raise KilledWorker("remanence-0123-learn-7: partition 3", None, 3)
    keys = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("remanence.scale.learning.computed", lambda value, *_: keys.extend(value.__dask_graph__()))
        rm.scale.fit(rm.ContinualClassifier(), blocks())
    assert sum(str(key).endswith(": block 3") for key in keys) == 1
