"""Two processes, each with its own part of the data, get one memory and keep the outputs of both parts."""

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


def test_two_processes_end_with_one_memory_and_keep_the_outputs_of_both_shares(tmp_path, two_processes):
    first, second = two_processes(WORKER, tmp_path)
    assert equal(first["net"], second["net"])
    assert equal(first["guard"], second["guard"])
    assert first["guard"]["tasks"] == 4 and first["guard"]["layers"]["first"]["rows"] == 3 * 3 + 2
    for result in (first, second):
        assert len(result["moved"]) == 9 and max(result["moved"]) < 1e-12
    for bad, (hurt, other) in enumerate(((first, second), (second, first))):
        assert "InputError" in hurt["refused"][bad] and "index 99 is out of bounds" in hurt["refused"][bad]
        assert other["refused"][bad].startswith("InputError: another process failed to absorb its batches")


def test_flattened_parameters_raise_an_error(alone):
    """FSDP1 replaces the weights by one vector."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    net = FullyShardedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4)), device_id=torch.device("cpu"))
    with pytest.raises(rm.InputError, match=r"FullyShardedDataParallel.*DistributedDataParallel"):
        rm.deep.GradientProjection(net)
