"""Predict, then learn: the errors are those of a plain loop, row by row or in blocks, for methods and estimators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier, SGDRegressor

import remanence as rm

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
Y = X @ RNG.standard_normal((4, 2)) + 0.1 * RNG.standard_normal((90, 2))
LABELS = np.array(["low", "mid", "high"])[np.digitize(Y[:, 0], [-1, 1])]
METHODS = [rm.RLS(), rm.RLS(forget=0.9), rm.LMS(0.5), rm.APA(2), rm.ORFit(2), rm.Kalman(0.1), rm.LowRankRLS(2)]


def plain(method, X, Y, block):
    state, errors = method.init(X.shape[1], Y.shape[1]), []
    for i in range(0, len(X), block):
        part = slice(i, i + block)
        errors.extend(np.mean((Y[part] - method.predict(state, X[part])) ** 2, axis=1))
        state = method.update(state, X[part], Y[part])
    return np.array(errors), state


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("block", [1, 7, 90])
def test_a_method_predicts_each_block_before_it_learns_it(method, block):
    result, (errors, state) = rm.prequential(method, X, Y, block=block), plain(method, X, Y, block)
    np.testing.assert_allclose(result.errors, errors, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(method.weights(result.state), method.weights(state), rtol=1e-7, atol=1e-10)
    assert result.error == pytest.approx(errors.mean()) and result.loss == "squared" and result.seconds > 0


def test_labels_are_one_output_per_class():
    result = rm.prequential(rm.RLS(), X, LABELS)
    codes = np.unique(LABELS, return_inverse=True)[1]
    method, wrong = rm.RLS(), []
    state = method.init(4, 3)
    for x, code in zip(X, codes, strict=True):
        wrong.append(float(np.argmax(method.predict(state, x[None])) != code))
        state = method.update(state, x[None], np.eye(3)[[code]])
    np.testing.assert_array_equal(result.errors, wrong)
    assert result.accuracy == pytest.approx(1 - np.mean(wrong))
    np.testing.assert_array_equal(rm.prequential(rm.RLS(), X, codes, loss="zero_one").errors, wrong)
    assert rm.prequential(rm.RLS(), X, codes).loss == "squared" and "right over 90 rows" in str(result)


@pytest.mark.parametrize("block", [1, 8])
def test_an_estimator_predicts_each_block_before_it_learns_it(block):
    for make, y in (
        (lambda: rm.ContinualClassifier(rm.RLS(0.1)), LABELS),
        (lambda: rm.ContinualRegressor(rm.RLS(0.1)), Y),
        (lambda: SGDRegressor(random_state=0), Y[:, 0]),
    ):
        model, twin, errors = make(), make(), np.full(90, np.nan)
        for i in range(0, 90, block):
            part = slice(i, i + block)
            if i:
                found = twin.predict(X[part])
                errors[part] = (
                    found != y[part] if y is LABELS else ((found - y[part]) ** 2).reshape(len(found), -1).mean(1)
                )
            twin.partial_fit(X[part], y[part])
        result = rm.prequential(model, X, y, block=block)
        np.testing.assert_allclose(result.errors, errors, rtol=1e-9)
        assert np.isnan(result.errors[:block]).all() and not hasattr(model, "coef_") and not hasattr(model, "state_")
        assert result.error == pytest.approx(np.nanmean(errors))


def test_classifiers_that_must_know_all_classes_beforehand_are_told():
    assert rm.prequential(SGDClassifier(random_state=0), X, LABELS, block=10).accuracy > 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 99))
def test_curves_are_means_over_the_last_rows(n, window, seed):
    errors = np.random.default_rng(seed).random(n)
    errors[: n // 4] = np.nan
    result = rm.Prequential(errors, "squared")
    for size, curve in ((window, result.curve(window)), (n, result.curve())):
        expected = [errors[max(0, i + 1 - size) : i + 1] for i in range(n)]
        expected = [np.nan if np.isnan(part).all() else np.nanmean(part) for part in expected]
        np.testing.assert_allclose(curve, expected, atol=1e-12)


def test_the_picture_shows_both_curves():
    pytest.importorskip("matplotlib").use("Agg")
    ax = rm.prequential(rm.RLS(), X, LABELS).plot(window=10)
    assert [line.get_label() for line in ax.lines] == ["last 10 rows", "all rows so far"]
    assert ax.get_xlabel() == "rows learned" and "%" in ax.get_ylabel()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 100 * rm.prequential(rm.RLS(), X, LABELS).curve(10))
    assert rm.prequential(rm.RLS(), X, Y).plot(ax) is ax


def test_bad_calls_are_refused():
    for arguments in (
        (rm.RLS, X, Y),
        (object(), X, Y),
        (rm.RLS(), X[:5], Y),
        (rm.RLS(), X[0], Y),
        (rm.RLS(), X[:0], Y[:0]),
        (rm.RLS(), X, Y, 0),
        (rm.RLS(), X, Y, 1.5),
        (rm.RLS(), X, Y, 1, "hinge"),
        (rm.RLS(), X, Y, 1, "zero_one"),
        (rm.RLS(), X, LABELS, 1, "squared"),
        (rm.RLS(), np.full_like(X, np.nan), Y),
    ):
        with pytest.raises(rm.InputError):
            rm.prequential(*arguments)
    with pytest.raises(rm.InputError, match=r"read \.error"):
        _ = rm.prequential(rm.RLS(), X, Y).accuracy
    with pytest.raises(rm.InputError, match="window"):
        rm.prequential(rm.RLS(), X, Y).curve(0)
