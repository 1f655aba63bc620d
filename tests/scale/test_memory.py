"""Workers of little memory learn more than they can hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import remanence as rm
from remanence.scale.naming import SHARE, as_task
from remanence.tables.pages import stripes


@pytest.mark.sweep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_four_gigabytes_with_workers_of_400_megabytes(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("small_workers.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bytes of rows"] > 4e9 and found["rows"] == 2_000_000
    assert found["same processes"], "a worker was killed for its memory"
    assert max(found["peaks"]) < 0.8 * 400e6, "Dask pauses workers above 80 % of their limit"


def test_a_task_reads_within_its_share_of_the_memory_of_the_worker(tmp_path):
    from distributed import Client, LocalCluster

    def seen():
        with as_task():
            return stripes._memory.get(), rm.parallel.thread_count.thread_count()

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, memory_limit="1GB", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        assert client.submit(seen).result() == (1e9 / SHARE / 2, 1)
    assert seen()[0] == float("inf")
