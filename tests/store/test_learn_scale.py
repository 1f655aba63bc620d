"""Models from files whose columns are standardized by everything learned."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import remanence as rm
from remanence.cli import app
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.merge import merge_files

from .job_helpers import learn_tables, unlearn_tables

STANDARD = LearnOptions(targets=("y",), scale="standard")


def write(path, X, y):
    rows = "".join(f"{a!r},{b!r},{k}\n" for (a, b), k in zip(X.tolist(), y.tolist(), strict=True))
    path.write_text("a,b,y\n" + rows)
    return path


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2)) * [1e-3, 1e4] + [5.0, 1e4]
    return X, 1e3 * X[:, 0] + 1e-4 * X[:, 1] + rng.standard_normal(90)


def assert_pipeline(path, X, y):
    expected = make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, y).predict(X)
    np.testing.assert_allclose(rm.load(path).predict(X), expected, rtol=1e-9)


@pytest.mark.parametrize("undo", [None, "pieces"])
def test_files_are_learned_unlearned_and_merged_as_by_a_pipeline(tmp_path, undo):
    X, y = data()
    files = [write(tmp_path / f"{k}.csv", X[30 * k : 30 * k + 30], y[30 * k : 30 * k + 30]) for k in range(3)]
    options = LearnOptions(targets=("y",), scale="standard", undo=undo)
    learn_tables(tmp_path / "m", files[:2], options)
    assert_pipeline(tmp_path / "m", X[:60], y[:60])
    unlearn_tables(tmp_path / "m", files[:1])
    assert_pipeline(tmp_path / "m", X[30:60], y[30:60])
    learn_tables(tmp_path / "other", files[2:], options)
    merge_files([tmp_path / "m", tmp_path / "other"], tmp_path / "both")
    assert_pipeline(tmp_path / "both", X[30:], y[30:])


def test_the_command_shows_it_and_what_it_refuses(tmp_path):
    X, y = data()
    file, model = str(write(tmp_path / "t.csv", X, y)), str(tmp_path / "m")
    done = CliRunner().invoke(app, ["learn", model, file, "--target", "y", "--scale", "standard"])
    assert done.exit_code == 0, done.output
    assert_pipeline(model, X, y)
    assert "standard, of columns" in CliRunner().invoke(app, ["inspect", model]).output
    for options, found in (
        (LearnOptions(targets=("y",), scale="robust"), "scale"),
        (LearnOptions("y", scale="standard", method="lms"), "needs RLS"),
        (LearnOptions(targets=("y",), scale="standard", method="lms"), "needs RLS"),
    ):
        with pytest.raises(rm.InputError, match=found):
            learn_tables(tmp_path / "n", [file], options)
        assert not (tmp_path / "n").exists()
    plain = tmp_path / "plain"
    learn_tables(plain, [file], LearnOptions(targets=("y",)))
    with pytest.raises(rm.InputError, match="expected the options this model was made with"):
        learn_tables(plain, [file], STANDARD)
