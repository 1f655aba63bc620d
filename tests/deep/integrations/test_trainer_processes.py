"""Two processes under the Trainer end with the same weights and memory as one with the same global batch."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

WORKER = Path(__file__).with_name("trainer_worker.py")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without it")
@pytest.mark.parametrize("kind", ["", "sharded"])
def test_two_processes_are_the_same_as_one(kind, tmp_path):
    alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    port = free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), str(world), str(port), str(tmp_path), *how],
            env=alone,
            stderr=subprocess.PIPE,
        )
        for world, how in ((1, []), (2, [kind] if kind else []))
        for rank in range(world)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=400)
            assert process.returncode == 0, errors.decode()[-2000:]
    finally:
        for process in processes:
            process.kill()
    names = ("trained1_0", f"trained2{kind}_0", f"trained2{kind}_1")
    one, *two = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in names)
    for found in two:
        assert found["moved"] < 1e-9
        assert found["shards"] == (len(found["net"]) if kind else 0)
        assert found["rows"] == one["rows"]
        assert found["rank"] == one["rank"]
        for name, value in one["net"].items():
            assert torch.allclose(found["net"][name], value, atol=1e-9), name
    assert all(torch.equal(two[0]["net"][name], value) for name, value in two[1]["net"].items())
