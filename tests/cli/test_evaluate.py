"""`evaluate` on the terminal: a grid for a few classes, lists with the worst first for many, in 80 columns."""

import json

import numpy as np
import pytest

from remanence.cli import main


@pytest.fixture
def shown(capsys, monkeypatch, tmp_path):
    """What `evaluate` prints for a model of so many classes, and what it says as JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def called(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert not leaving.value.code, err
        return out

    def evaluated(classes, name="{}"):
        rng = np.random.default_rng(classes)
        y = np.arange(12 * classes) % classes
        X = rng.standard_normal((classes, 5))[y] + 0.8 * rng.standard_normal((len(y), 5))
        rows = [",".join([*(f"{v:.4f}" for v in x), name.format(k)]) for x, k in zip(X, y, strict=True)]
        (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,kind", *rows]) + "\n")
        called("learn", "m", "t.csv", "--label", "kind")
        return called("evaluate", "m", "t.csv"), json.loads(called("evaluate", "m", "t.csv", "--json"))

    return evaluated


def test_a_few_classes_have_a_grid(shown):
    out, found = shown(5, "k{}")
    assert "as k4" in out and "confusions" not in out
    for row in found["confusion"]["counts"]:
        assert any([cell.strip() for cell in line.split("│")[4:-1]] == list(map(str, row)) for line in out.splitlines())


@pytest.mark.parametrize("classes", [7, 20, 50])
def test_many_classes_are_listed_with_the_worst_first_and_the_confusions(shown, classes):
    out, found = shown(classes, "kind_{:02d}")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80 and "as kind" not in out
    listed = [line.split() for line in lines if line.startswith("kind_") and "→" not in line]
    assert len(listed) == min(classes, 20)
    shares = {entry["label"]: entry["accuracy"] for entry in found["classes"]}
    assert [f"{shares[label]:.1%}" for label, _, _ in listed] == [share for *_, share in listed]
    assert [shares[label] for label, *_ in listed] == sorted(shares.values())[: len(listed)]
    assert ("more classes" in out) is (classes > 20)
    counts = np.array(found["confusion"]["counts"])
    np.fill_diagonal(counts, 0)
    told = [line for line in lines if "→" in line]
    assert len(told) == min(10, (counts > 0).sum()) and told[0].split()[-1] == str(counts.max())
    true, _, predicted, _ = told[0].split()
    labels = found["confusion"]["labels"]
    assert counts[labels.index(true), labels.index(predicted)] == counts.max()
    assert lines[-2].startswith("accuracy ") and "rows wrong" in lines[-2]
    assert lines[-1] == (
        f"probabilities: log-loss {found['log_loss']:.3f}, calibration error {found['calibration_error']:.3f}"
    )


def test_a_few_classes_with_long_names_are_listed_too(shown):
    out, _ = shown(3, "a_class_with_a_name_that_is_rather_long_{}")
    assert max(map(len, out.splitlines())) <= 80 and "worst first" in out


@pytest.mark.parametrize("columns", [40, 60])
def test_no_figure_is_cut_on_a_narrow_terminal(shown, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out, found = shown(4, "a class {}")
    assert "…" not in out and max(map(len, out.splitlines())) <= columns
    for entry in found["classes"]:
        assert any(line.split()[-2:] == ["12", f"{entry['accuracy']:.1%}"] for line in out.splitlines())
