"""New texts for a small Llama: the claims of the card hold on a short run, and its figures tell guarded from plain."""

import pytest

from experiments import guarded_llama

pytest.importorskip("transformers")
pytest.importorskip("peft")

STEPS = 12  # enough to tell guarded from plain
GUARDED = [method for method in guarded_llama.METHODS if method.endswith(", guarded")]


@pytest.fixture(scope="module")
def found():
    methods = ("all weights", "LoRA", "OSF", "CorDA-KPM", *GUARDED)
    return {method: guarded_llama._one(method, 0, STEPS) for method in methods}


@pytest.mark.parametrize("method", GUARDED)
def test_guarded_training_learns_and_leaves_old_logits_alone(found, method):
    first, last, moved = found[method]
    assert last < first and moved < 1e-4


def test_what_preserves_knowledge_in_peft_moves_old_logits(found):
    assert min(found[method][2] for method in ("all weights", "LoRA", "OSF", "CorDA-KPM")) > 0.01


def test_guarded_lora_learns_as_well_as_lora():
    """At the length of the card: early on, the guarded adapter is behind."""
    plain, guarded = (
        [guarded_llama._one(method, seed, 100) for seed in range(guarded_llama.SEEDS)]
        for method in ("LoRA", "LoRA, guarded")
    )
    assert sum(last for _, last, _ in guarded) <= 1.02 * sum(last for _, last, _ in plain)
    assert max(moved for _, _, moved in guarded) <= 1e-5 < min(moved for _, _, moved in plain)


def test_the_card_reads_its_figures_from_the_runs(monkeypatch, tmp_path, found):
    rows = dict(zip(guarded_llama.METHODS, [(4.0, 3.0, 0.5)] * len(guarded_llama.METHODS), strict=True))
    rows |= {method: found[method] for method in GUARDED} | {"LoRA": found["LoRA, guarded"]}
    monkeypatch.setattr(guarded_llama, "_one", lambda method, seed, steps: rows[method])
    card = guarded_llama.make(True, tmp_path)
    assert card.holds and len(card.tables[0].rows) == len(guarded_llama.METHODS)
    rows["LoRA, guarded"] = (4.0, 9.9, 1e-3)
    assert [claim.holds for claim in guarded_llama.make(True, tmp_path).claims] == [True, False, False]
    card.write(tmp_path, "command", 1.0)
