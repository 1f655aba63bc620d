"""A card says what was measured, keeps a failing claim visible, and goes where it belongs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from experiments.card import Card, Claim, Curves, Table, redraw, run

import remanence as rm


def card(*claims):
    table = Table(
        "Figures", ("learner", "accuracy", "gap"), [("RLS", "83.1 %", 1.5e-14), ("inverse", "10 %", float("nan"))]
    )
    return Card("tiny", "A tiny card", "What it is.", "no data", {"Ridge": 1.0}, "joint 83.1 %", [table], list(claims))


CARDS = Path(__file__).parents[2] / "experiments/cards"
GOOD, BAD = Claim("equal", 1e-14, 1e-9), Claim("broken", float("nan"), 1e-9)


def test_a_card_holds_what_it_says(tmp_path):
    path = card(GOOD, BAD).write(tmp_path, "python -m experiments.tiny", 12.3)
    text = path.read_text()
    for part in (
        "# A tiny card",
        "no data",
        "joint 83.1 %",
        "`python -m experiments.tiny`",
        "| RLS | 83.1 % | 1.5e-14 |",
    ):
        assert part in text
    assert "| equal | 1e-14 | 1e-09 | holds |" in text and "| broken | nan | 1e-09 | **fails** |" in text
    whole = json.loads((tmp_path / "tiny.json").read_text(), parse_constant=pytest.fail)
    assert [claim["holds"] for claim in whole["claims"]] == [True, False]
    assert whole["tables"][0]["rows"][1] == ["inverse", "10 %", "nan"] and whole["seconds"] == 12.3


def test_an_allowed_figure_is_not_rounded_below_the_measured_one(tmp_path):
    text = card(Claim("short by", 0.0106, 0.015)).write(tmp_path, "command", 1.0).read_text()
    assert "| short by | 0.011 | 0.015 | holds |" in text


@pytest.mark.parametrize("path", sorted(CARDS.glob("*.json")), ids=lambda path: path.stem)
def test_kept_cards_say_what_their_figures_say(path, tmp_path):
    text = redraw(path, tmp_path).read_text()
    assert text == path.with_suffix(".md").read_text(), "draw anew with `python -m experiments.card`"
    assert all((CARDS / picture.name).is_file() for picture in tmp_path.glob("*.svg"))


def test_a_card_is_drawn_anew_from_its_figures(tmp_path):
    curves = Curves("Two learners", {"RLS": [0.9, 0.8], "SGD": [0.9, 0.4]}, {"joint": 0.85})
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    path = replace(card(GOOD, BAD), curves=curves).write(first, "python -m experiments.tiny", 12.3)
    redraw(path.with_suffix(".json"), second)
    assert sorted(file.name for file in first.iterdir()) == ["tiny.json", "tiny.md", "tiny.svg"]
    assert "![Two learners](tiny.svg)" in path.read_text()
    for name in ("tiny.md", "tiny.svg"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_quick_cards_do_not_replace_kept_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = []
    make = lambda quick, folder: asked.append((quick, folder)) or card(GOOD)
    assert run("tiny", make, ["--quick"]) == 0 and run("tiny", make, ["--data", "elsewhere"]) == 0
    assert asked == [(True, Path("data")), (False, Path("elsewhere"))]
    assert (tmp_path / "runs/cards/tiny.md").is_file() and (tmp_path / "experiments/cards/tiny.json").is_file()
    assert "--quick" in (tmp_path / "runs/cards/tiny.md").read_text()
    assert "# A tiny card" in capsys.readouterr().out


def test_a_failing_claim_and_missing_data_are_seen_in_the_exit_code(tmp_path, capsys):
    assert run("tiny", lambda *_: card(GOOD, BAD), ["--out", str(tmp_path)]) == 1

    def missing(*_):
        raise rm.FileError("expected data, found none; run `make data`")

    assert run("tiny", missing, []) == 2
    assert "make data" in capsys.readouterr().err
