"""Labels and column names that a terminal or rich would obey are shown as they are."""

import json

import numpy as np
import pytest

from remanence.cli import main

COLUMN = "[/red]\x1b[2J"
LABELS = ["[/b]", "[red]x", "\x1b[31mz", "plain"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def called(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return leaving.value.code or 0, out, err

    return called


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{a!r},{b!r},{LABELS[i % 4]}" for i, (a, b) in enumerate(rng.standard_normal((40, 2)).tolist())]
    (tmp_path / "[x].csv").write_text("\n".join([f"{COLUMN},b,way", *lines]) + "\n")


def test_hostile_names_are_shown_and_not_obeyed(call, data):
    code, _, err = call("learn", "m", "[x].csv", "--label", "way")
    assert code == 0, err
    for command in (("evaluate", "m", "[x].csv"), ("inspect", "m")):
        code, out, err = call(*command)
        assert code == 0, err
        assert "\x1b" not in out + err
        assert "[/b]" in out and "[red]x" in out and r"\x1b[31mz" in out
    assert r"[/red]\x1b[2J" in out


def test_scripts_get_the_names_as_they_are(call, data):
    call("learn", "m", "[x].csv", "--label", "way")
    found = json.loads(call("evaluate", "m", "[x].csv", "--json")[1])
    assert sorted(c["label"] for c in found["classes"]) == sorted(LABELS)


def test_targets_of_a_regressor_too(call, data, tmp_path):
    (tmp_path / "r.csv").write_text("a,[/t]\n" + "".join(f"{i},{i}\n" for i in range(9)))
    assert call("learn", "r", "r.csv", "--target", "[/t]")[0] == 0
    code, out, _ = call("evaluate", "r", "r.csv")
    assert code == 0 and "[/t]" in out
