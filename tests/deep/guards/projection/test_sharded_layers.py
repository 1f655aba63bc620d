"""Training sharded models in two processes is training the whole model: same weights after every step, same memory."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

WORKER = Path(__file__).parents[1] / "sharded_worker.py"
SOFT = ("OWM", "OWM, convolutions", "ScaledProjection")
TORCH = (
    "one replica",
    "two replicas",
    "kept after forward",
    "taken off after forward",
    "offload",
    "guard from before",
    "clipping",
    "gradients too",
    "several steps together",
    "fused",
    "foreach",
    "OWM",
    "OWM, convolutions",
    "ScaledProjection",
    "lowrank",
    "convolutions",
    "convolutions, gradients too",
    "attention and LSTM",
)
TRANSFORMERS = ("GPT2LMHeadModel", "LlamaForCausalLM", "LlamaForCausalLM with LoRA", "LlamaForCausalLM with new LoRA")


@pytest.fixture(scope="module")
def of_torch(two_processes, tmp_path_factory):
    return two_processes(WORKER, tmp_path_factory.mktemp("torch"), "torch")


@pytest.fixture(scope="module")
def of_transformers(two_processes, tmp_path_factory):
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    return two_processes(WORKER, tmp_path_factory.mktemp("transformers"), "transformers")


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return all(same(a[k], b[k]) for k in a.keys() | b.keys()) if isinstance(a, dict) else a == b


def check(found, name):
    first, second = found[0][name], found[1][name]
    assert same(first["state"], second["state"])
    for one in (first, second):
        assert one["differs"] < 1e-9
        assert one["fell"]
        assert one["moved"] < 1e-9 or name in SOFT


@pytest.mark.parametrize("name", TORCH)
def test_sharded_training_is_training_the_whole_model(name, of_torch):
    assert {*of_torch[0]} == {*TORCH}
    check(of_torch, name)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_and_adapters_on_them_are_trained_as_the_whole_model_is(name, of_transformers):
    assert {*of_transformers[0]} == {*TRANSFORMERS}
    check(of_transformers, name)
