"""Guards of models that two processes share (fully_shard): failures of one process, files, planning, precision."""

import sys
from pathlib import Path

import pytest

import remanence as rm

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
WORKER = HERE / "sharded_trouble_worker.py"


@pytest.fixture(scope="module")
def models():
    sys.path.insert(0, str(HERE))
    import sharded_models

    sys.path.remove(str(HERE))
    return sharded_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    """The folder of the processes, with a guard that was saved by a single one."""
    folder = tmp_path_factory.mktemp("trouble")
    guard = rm.deep.GradientProjection(models.make(models.Words))
    guard.absorb([models.words(7, 0), models.words(7, 1)])
    rm.save(guard, folder / "whole.safetensors")
    return folder


@pytest.fixture(scope="module")
def found(two_processes, folder):
    return two_processes(WORKER, folder)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return all(same(a[k], b[k]) for k in a.keys() | b.keys()) if isinstance(a, dict) else a == b


def test_if_one_process_fails_to_absorb_none_does_and_nothing_has_changed(found):
    results = [one["one_fails_to_absorb"] for one in found]
    for bad, (hurt, other) in enumerate((results, results[::-1])):
        assert "InputError" in hurt["errors"][bad] and "index" in hurt["errors"][bad]
        assert other["errors"][bad].startswith("InputError: another process failed to absorb its batches")
    for result in results:
        assert result["unchanged"] and result["fell"] and result["moved"] < 1e-12


def test_processes_may_bring_different_numbers_of_batches(found):
    first, second = (one["shares_of_different_sizes"] for one in found)
    assert first["rows"] == second["rows"] == [2 + 4, 2 + 4 + 1]
    assert same(first["state"], second["state"])


def test_different_memories_are_refused_by_all_processes(found):
    for one in found:
        assert one["different_memories"]["error"].startswith("InputError: expected the same memory in all processes")


def test_a_process_that_fails_inside_a_block_leaves_it_alone_and_has_kept_the_outputs(found):
    for one in found:
        result = one["one_fails_inside_a_block"]
        assert result["error"] == "ZeroDivisionError: "
        assert result["moved"] < 1e-9


@pytest.mark.parametrize("kind", ["Words", "Images"])
def test_changes_outside_are_reported_and_the_first_step_takes_them_back(kind, found):
    for one in found:
        result = one["changed_outside"][kind]
        assert any("changed outside protect()" in message for message in result["warned"])
        assert result["moved"] < 1e-9


def test_a_guard_is_loaded_for_shards_and_saved_by_one_process(found, folder, models):
    first, second = (one["files"] for one in found)
    assert max(first["moved"], second["moved"]) < 1e-12
    assert first["warned"] == second["warned"] == 0
    net = models.make(models.Words)
    net.load_state_dict(first["weights"])
    guard = rm.load(folder / "sharded.safetensors", model=net)
    assert same(guard.state_dict(), first["state"]) and same(first["state"], second["state"])
    x = torch.cat([models.words(1, rank) for rank in range(2)])
    before, optimizer = net(x).detach(), torch.optim.AdamW(net.parameters(), lr=0.01)
    with guard.protect(optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            net(models.words(2, 0)).square().mean().backward()
            optimizer.step()
    assert float((net(x) - before).abs().max()) < 1e-12


def test_previews_are_those_of_the_whole_model_and_all_processes_choose_the_same(found):
    first, second = (one["planning"] for one in found)
    for result in (first, second):
        shards, whole = result["previews"]
        assert shards.keys() == whole.keys() and len(whole) == 3
        assert all(shards[name] == pytest.approx(whole[name], abs=1e-9) for name in whole)
        assert any(0.01 < share < 0.99 for share in whole.values())
        assert result["back"]
    assert first["choice"] == second["choice"] and first["energy"] == second["energy"]


@pytest.mark.parametrize(("case", "allowed"), [("mixed_precision", 1e-4), ("steps_in_the_backward_pass", 1e-9)])
def test_old_outputs_stay_and_the_new_loss_falls(case, allowed, found):
    for one in found:
        assert one[case]["moved"] < allowed
        assert one[case]["fell"]
