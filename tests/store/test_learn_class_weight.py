"""Models from files whose classes all have the same weight in total."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.class_weight import compute_sample_weight
from typer.testing import CliRunner

import remanence as rm
from remanence.cli import app
from remanence.store.jobs.learn_options import LearnOptions

from .job_helpers import learn_tables, unlearn_tables

BALANCED = LearnOptions("kind", class_weight="balanced")


def write(path, X, y):
    path.write_text("a,b,kind\n" + "".join(f"{a!r},{b!r},{k}\n" for (a, b), k in zip(X.tolist(), y, strict=True)))
    return path


def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 2)), np.array(["rare", *["often"] * 4])[np.arange(60) % 5]


def assert_balanced(path, X, y):
    Y = (y[:, None] == np.unique(y)).astype(float)
    expected = Ridge(alpha=1.0).fit(X, Y, sample_weight=compute_sample_weight("balanced", y)).predict(X)
    np.testing.assert_allclose(rm.load(path).class_scores(X), expected, atol=1e-8)


def test_files_are_learned_with_balanced_classes(tmp_path):
    X, y = data()
    files = [write(tmp_path / f"{k}.csv", X[part], y[part]) for k, part in enumerate((slice(40), slice(40, 60)))]
    learn_tables(tmp_path / "m", files, BALANCED)
    assert_balanced(tmp_path / "m", X, y)
    with pytest.raises(rm.InputError, match="expected the options this model was made with"):
        plain = tmp_path / "plain"
        learn_tables(plain, files[:1], LearnOptions("kind"))
        learn_tables(plain, files[1:], BALANCED)
    unlearn_tables(tmp_path / "m", files[1:])
    assert_balanced(tmp_path / "m", X[:40], y[:40])


def test_the_command_and_what_it_refuses(tmp_path):
    X, y = data()
    file = str(write(tmp_path / "t.csv", X, y))
    model = str(tmp_path / "m")
    assert (
        not CliRunner().invoke(app, ["learn", model, file, "--label", "kind", "--class-weight", "balanced"]).exit_code
    )
    assert "balanced classes" in CliRunner().invoke(app, ["inspect", model]).output
    for options, message in (
        (LearnOptions(targets=("a",), ignored=("kind",), class_weight="balanced"), "only where labels are learned"),
        (LearnOptions("kind", class_weight="even"), "balanced"),
        (LearnOptions("kind", class_weight="balanced", method="lms"), "use RLS"),
    ):
        with pytest.raises(rm.InputError, match=message):
            learn_tables(tmp_path / "n", [file], options)
        assert not (tmp_path / "n").exists()
