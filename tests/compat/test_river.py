"""Methods as river regressors."""

import numpy as np
import pytest

import remanence as rm
from remanence.errors import InputError

river = pytest.importorskip("river")


def samples(n=120, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 3 + 0.1 * rng.standard_normal(n)
    return X, y


@pytest.mark.parametrize("method", [None, rm.RLS(forget=0.99), rm.LMS(step=0.5)], ids=str)
def test_keeps_the_conventions_of_river(method):
    from river.checks import check_estimator

    check_estimator(rm.compat.river.Regressor(method))


def test_equals_the_regressor_on_all_rows():
    X, y = samples()
    model = rm.compat.river.Regressor(rm.RLS(ridge=0.5))
    for row, target in zip(X, y, strict=True):
        model.learn_one({f"x{i}": v for i, v in enumerate(row)}, target)
    whole = rm.ContinualRegressor(rm.RLS(ridge=0.5)).fit(X, y)
    got = [model.predict_one({f"x{i}": v for i, v in enumerate(row)}) for row in X]
    np.testing.assert_allclose(got, whole.predict(X), atol=1e-10)


@pytest.mark.parametrize("method", [rm.RLS(ridge=0.5), rm.RLS(ridge=0.5, forget=0.98), rm.LMS(step=0.5)], ids=str)
def test_features_that_come_later_were_zero_so_far(method):
    X, y = samples(60)
    X[:20, 3:] = 0
    X[:40, 4] = 0
    late, early = (rm.compat.river.Regressor(method, intercept=False) for _ in range(2))
    for i, (row, target) in enumerate(zip(X, y, strict=True)):
        present = 3 if i < 20 else 4 if i < 40 else 5
        late.learn_one({j: row[j] for j in range(present)}, target)
        early.learn_one(dict(enumerate(row)), target)
    for row in X:
        assert late.predict_one(dict(enumerate(row))) == pytest.approx(
            early.predict_one(dict(enumerate(row))), abs=1e-9
        )
    assert late.predict_one({0: 1.0, "never seen": 5.0}) == pytest.approx(late.predict_one({0: 1.0}))


def test_bad_input_changes_nothing():
    model = rm.compat.river.Regressor()
    model.learn_one({"a": 1.0}, 2.0)
    before = model.predict_one({"a": 1.0})
    for x, y in (({"a": "red"}, 1.0), ({"a": np.nan}, 1.0), ({"b": np.inf}, 1.0), ({"a": 1.0, "c": 2.0}, np.nan)):
        with pytest.raises(InputError):
            model.learn_one(x, y)
    assert model.predict_one({"a": 1.0}) == before
    assert set(model._columns) == {"a"}
    with pytest.raises(InputError):
        rm.compat.river.Regressor(rm.ICL())
