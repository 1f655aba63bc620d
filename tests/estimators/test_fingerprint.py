"""A fingerprint tells encoders apart, and is the same in every process."""

import inspect
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import remanence as rm
from remanence.estimators.fingerprint import fingerprint

SCRIPT = """
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
X = np.random.default_rng(0).integers(-9, 9, (16, 4)).astype(float)  # (no BLAS: its rounding may differ)
encoder = make_pipeline(FunctionTransformer(np.abs), MinMaxScaler(), StandardScaler()).fit(X)
encoder.words_ = {"one", "two", "three", "four"}
"""


class Plain:
    """Not scikit-learn's; holds itself, a set, and an array among other things."""

    def __init__(self, value):
        self.value, self.me, self.words = value, self, {"x", "y"}

    def transform(self, X):
        return X


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((20, 4))


def test_encoders_that_differ_in_anything_they_learned_or_were_told_differ(X):
    encoders = [
        StandardScaler().fit(X),
        StandardScaler().fit(X + 1e-9),
        StandardScaler(with_mean=False).fit(X),
        make_pipeline(StandardScaler(), PCA(2)).fit(X),
        make_pipeline(StandardScaler(), PCA(2)).fit(X + np.eye(20, 4)),
        make_pipeline(StandardScaler(), PCA(3)).fit(X),
        ColumnTransformer([("a", StandardScaler(), [0, 1])]).fit(X),
        ColumnTransformer([("a", StandardScaler(), [0, 2])]).fit(X),
        FunctionTransformer(np.abs).fit(X),
        FunctionTransformer(fingerprint).fit(X),
        Plain(1.0),
        Plain(np.ones(2)),
        Plain(np.zeros(2)),
        Plain([{"a": None}]),
        rm.RandomFeatures(10),
        rm.RandomFeatures(10, seed=1),
    ]
    assert len({fingerprint(encoder) for encoder in encoders}) == len(encoders)


def made():
    names: dict = {}
    exec(SCRIPT, names)
    return names["encoder"]


def test_it_is_the_same_for_a_twin_and_in_another_process():
    mine = fingerprint(made())
    assert mine == fingerprint(made())
    code = SCRIPT + "from remanence.estimators.fingerprint import fingerprint\nprint(fingerprint(encoder))"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"}
    )
    assert other.stdout.strip() == mine


def test_it_does_not_depend_on_what_other_libraries_do_to_numpy():
    before = fingerprint(made())
    with suppress(ValueError):
        inspect.signature(np.abs)  # kept in the ufunc by NumPy 2.4
    with np.printoptions(legacy="1.25"):
        assert fingerprint(made()) == before


def test_transforming_does_not_change_it(X):
    encoder = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    before = fingerprint(encoder)
    encoder.transform(X)
    assert fingerprint(encoder) == before == fingerprint(encoder)
