"""New intents for a sentence encoder: the card on made-up texts and a tiny random BERT, and what its figures are."""

import json

import numpy as np
import pytest
import torch
from experiments.guarded_minilm import Result, Size, _figures, fisher_information, megabytes
from experiments.intents import Counts, IntentNet, Part, halves

from experiments import guarded_minilm, intents, texts
from remanence.errors import FileError

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

WORDS = 40


def made_up(_=None):
    """Texts of two words of their intent (of six) and a common one."""
    rng = np.random.default_rng(0)
    split = []
    for rows in (60, 24):
        y = np.arange(rows) % 6
        split += [[f"{2 + 2 * k} {3 + 2 * k} {rng.integers(20, 30)}"[: rng.integers(5, 9)] for k in y], y.astype(str)]
    return tuple(split)


def tokenize(rows):
    return [[1, *(int(word) for word in row.split())] for row in rows]


def tiny():
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
    )
    torch.manual_seed(0)
    return transformers.BertModel(config, add_pooling_layer=False), 16, tokenize


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(texts, "intents_in", lambda _: texts.Intents("made up", "nowhere", *made_up()))
    monkeypatch.setattr(intents, "encoder", tiny)


def test_halves_share_no_intent_and_no_text_is_in_two_parts():
    first, second = halves(texts.intents_in(None), tokenize, Counts(6, 3, 2), seed=0)
    assert set(first.train.y) == {0, 1, 2} and set(second.test.y) == {3, 4, 5}
    for half in (first, second):
        assert [len(part) for part in (half.train, half.aside, half.test)] == [18, 9, 6]
        assert np.bincount(half.aside.y)[half.aside.y].tolist() == [3] * 9


def test_texts_are_found_in_a_folder_of_either_kind(monkeypatch, tmp_path):
    monkeypatch.undo()
    with pytest.raises(FileError, match="clinc150"):
        texts.intents_in(tmp_path)
    banking = tmp_path / "banking77"
    banking.mkdir()
    for part in ("train", "test"):
        (banking / f"{part}.csv").write_text(f"text,category\n{part} one,a\n{part} two,b\n")
    for folder in (tmp_path, banking):
        found = texts.intents_in(folder)
        assert (found.name, found.test, found.y.tolist()) == ("banking77", ["test one", "test two"], ["a", "b"])
    (tmp_path / "clinc150").mkdir()
    with pytest.raises(FileError, match="clinc150"):  # begun, but not complete
        texts.intents_in(tmp_path)
    parts = {part: [[part, "a"]] for part in ("train", "test")}
    (tmp_path / "clinc150/data_full.json").write_text(json.dumps(parts))
    assert texts.intents_in(tmp_path).name == "clinc150"


def test_batches_pad_to_their_longest_text_and_hold_every_text_once():
    part = Part([[1, 2], [3], [4, 5, 6], [7], [8, 9]], np.arange(5))
    for generator in (None, np.random.default_rng(0)):
        seen = [
            (ids[mask > 0].tolist(), int(k))
            for b, y in part.batches(2, generator)
            for ids, mask, k in zip(b["input_ids"], b["attention_mask"], y, strict=True)
        ]
        assert sorted(seen, key=lambda pair: pair[1]) == list(zip(part.tokens, range(5), strict=True))
    assert part.few(1).tokens == part.tokens


def test_padding_does_not_change_an_answer():
    body, width, _ = tiny()
    net = IntentNet(body, width, 6).eval()
    alone, padded = Part([[1, 2, 3]], np.zeros(1, int)), Part([[1, 2, 3], [1, 4, 5, 6, 7]], np.zeros(2, int))
    (one, _), (two, _) = (guarded_minilm.logits(net, part) for part in (alone, padded))
    np.testing.assert_allclose(one[0], two[0], atol=1e-6)


def test_figures_by_hand():
    before = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    after = np.array([[2.0, 1.0, 0.5], [0.0, 3.0, 4.0]])
    result = Result(after, np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    found = _figures(result, before, np.array([0, 1]), np.array([2, 2]))
    assert found == (0.5, 0.5, 0.5, 3.0, pytest.approx(3.5 / 6), 0.5)
    assert megabytes({"a": torch.zeros(1000), "b": [torch.zeros(500, dtype=torch.float64)]}) == pytest.approx(0.008)


def test_what_is_measured_was_made_by_the_run_of_the_setting_chosen(tmp_path, monkeypatch):
    """Three values are tried, and neither the first nor the last is chosen: its network is the one that is measured."""
    trials = guarded_minilm.Trials(Size(Counts(6, 3, 2), (2, 1), 3, 4), tmp_path)
    scores = iter([1.0, 0.5, 1.0, 0.5])  # before; at 0.9, 0.99 and their middle
    seen = []

    def aside(net, half):
        if half is trials.second:
            return 0.0
        seen.append(net.head.weight.detach().clone())
        return next(scores)

    monkeypatch.setattr(trials, "_aside", aside)
    measured = []
    monkeypatch.setattr(trials, "asked", lambda net, *rest: measured.append(net.head.weight.detach().clone()) or rest)
    _, _, setting, tried = trials.guarded(guarded_minilm.rm.deep.GradientProjection, (0.9, 0.99))
    assert setting == "energy 0.99" and len(tried) == 3
    assert torch.equal(measured[0], seen[2]) and not torch.equal(seen[2], seen[3])


def test_the_error_of_a_loss_by_hand():
    """The loss 1/4 of (1, 0, 1, 0) to (1, 0, 0, 0) has the variance 3/16 per text; 4 tests and 12 held out: 1/16."""
    before, after = np.array([1, 0, 1, 0], bool), np.array([1, 0, 0, 0], bool)
    assert guarded_minilm.twice_the_error(before, after, 12) == pytest.approx(0.5 * (3 / 16 * 16 / 12 * 1) ** 0.5 * 2)


def test_fisher_information_of_a_softmax_layer():
    """A linear softmax has the Fisher information mean over x of x² p (1 − p); the labels are drawn, so roughly."""

    class Readout(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(1, 2, bias=False)

        def forward(self, input_ids, attention_mask):
            return self.head(input_ids[:, :1].float())

    net = Readout()
    net.head.weight.data[:] = torch.tensor([[0.3], [-0.2]])
    p = 1 / (1 + np.exp(-0.5 * np.array([1.0, 2.0])))
    expected = np.mean(np.array([1.0, 4.0]) * p * (1 - p))
    found = fisher_information(net, Part([[1], [2]] * 1000, np.zeros(2000, int)))["head.weight"]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0.1)


def test_minilm_card(monkeypatch, tmp_path):
    monkeypatch.setattr(guarded_minilm, "QUICK", Size(Counts(6, 3, 2), (2, 1), 3, 4))
    for name in ("ENERGIES", "DAMPINGS", "ALPHAS", "LORA_ENERGIES", "STRENGTHS"):
        monkeypatch.setattr(guarded_minilm, name, getattr(guarded_minilm, name)[:2])
    card = guarded_minilm.make(True, tmp_path)
    compared, choices = card.tables
    assert len(compared.rows) == 12 and all(len(row) == len(compared.columns) for row in compared.rows)
    chosen = {row[0]: row[1].split()[1] for row in compared.rows if row[1]}
    tried = {name: [row[1:3] for row in choices.rows if row[0] == name] for name in chosen}
    assert set(tried) == {row[0] for row in choices.rows}
    for name, value in chosen.items():
        assert value in [setting for setting, _ in tried[name]]
    assert len(tried["EWC"]) <= 2 and all(1 <= len(rows) <= 3 for rows in tried.values())
    card.write(tmp_path, "command", 1.0)
    assert (tmp_path / "guarded_minilm.svg").is_file()
