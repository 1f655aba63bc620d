"""Two processes, each with its own part of the data, get one memory and keep the outputs of both parts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import remanence as rm

torch = pytest.importorskip("torch")

WORKER = Path(__file__).with_name("distributed_worker.py")


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return a == b


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without it")
def test_two_processes_end_with_one_memory_and_keep_the_outputs_of_both_shares(tmp_path):
    alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, str(WORKER), str(rank), str(tmp_path)], env=alone, stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors.decode()[-2000:]
    finally:
        for process in processes:
            process.kill()
    first, second = (torch.load(tmp_path / f"result{rank}.pt", weights_only=True) for rank in range(2))
    assert equal(first["net"], second["net"])
    assert equal(first["guard"], second["guard"])
    assert first["guard"]["tasks"] == 4 and first["guard"]["layers"]["first"]["rows"] == 3 * 3 + 2
    for result in (first, second):
        assert len(result["moved"]) == 9 and max(result["moved"]) < 1e-12
    for error in (*first["sharded"], *second["sharded"]):
        assert "sharded over processes (fully_shard)" in error and "DistributedDataParallel" in error
    assert len(first["sharded"]) == len(second["sharded"]) == 2, "a guard from before, and one made afterwards"
    for bad, (hurt, other) in enumerate(((first, second), (second, first))):
        assert "InputError" in hurt["refused"][bad] and "index 99 is out of bounds" in hurt["refused"][bad]
        assert other["refused"][bad].startswith("InputError: another process failed to absorb its batches")


@pytest.fixture
def alone(tmp_path):
    """A process group of one."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_sharded_parameters_raise_an_error(alone):
    """FSDP2 gives every process a part of each weight, which a guard cannot use."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = torch.nn.Sequential(torch.nn.Linear(4, 4))
    fully_shard(net, mesh=init_device_mesh("cpu", (1,)))
    with pytest.raises(rm.InputError, match=r"0\.weight sharded over processes.*DistributedDataParallel"):
        rm.deep.GradientProjection(net)


def test_flattened_parameters_raise_an_error(alone):
    """FSDP1 replaces the weights by one vector."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    net = FullyShardedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4)), device_id=torch.device("cpu"))
    with pytest.raises(rm.InputError, match=r"FullyShardedDataParallel.*DistributedDataParallel"):
        rm.deep.GradientProjection(net)
