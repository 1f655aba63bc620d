"""`ridge="loo"`: the choice against explicit refits without each row, and against scikit-learn's RidgeCV."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeCV

import remanence as rm
from remanence.methods.ridge.left_out_errors import HIGHEST, LOWEST


def rows(seed, n, d, c=1, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ np.diag(np.logspace(0, -1.5, d)) + 3.0
    return X, X @ rng.standard_normal((d, c)) + noise * rng.standard_normal((n, c))


def left_out_predictions(X, Y, ridge, intercept):
    """A refit without every row."""
    found, d = np.empty_like(Y), X.shape[1]
    for i, keep in enumerate(~np.eye(len(X), dtype=bool)):
        x, y = (X[keep].mean(axis=0), Y[keep].mean(axis=0)) if intercept else (0.0, 0.0)
        rows = np.vstack([X[keep] - x, np.sqrt(ridge) * np.eye(d)])
        W = np.linalg.lstsq(rows, np.vstack([Y[keep] - y, np.zeros((d, Y.shape[1]))]))[0]
        found[i] = (X[i] - x) @ W + y
    return found


def grid(X, intercept):
    centred = X - X.mean(axis=0) if intercept else X
    return np.linalg.norm(centred, 2) ** 2 * np.logspace(LOWEST, HIGHEST, 33)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("n", "d", "c", "noise"), [(30, 5, 1, 0.5), (40, 12, 3, 2.0), (12, 20, 2, 0.3), (25, 3, 1, 9.0)]
)
def test_no_ridge_has_a_smaller_error_in_refits_without_each_row(n, d, c, noise, intercept):
    X, Y = rows(n, n, d, c, noise)
    model = rm.ContinualRegressor(rm.RLS("loo"), fit_intercept=intercept).fit(X, Y)
    errors = [((Y - left_out_predictions(X, Y, g, intercept)) ** 2).sum() for g in grid(X, intercept)[::2]]
    mine = ((Y - left_out_predictions(X, Y, model.ridge_, intercept)) ** 2).sum()
    assert mine <= 1.002 * min(errors)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 9999), n=st.integers(8, 80), d=st.integers(1, 30), noise=st.sampled_from([1e-3, 0.3, 5.0]))
def test_as_good_as_ridge_cv_on_any_data(seed, n, d, noise):
    X, Y = rows(seed, n, d, 1, noise)
    cv = RidgeCV(alphas=grid(X, True), store_cv_results=True).fit(X, Y[:, 0])
    model = rm.ContinualRegressor(rm.RLS("loo")).fit(X, Y[:, 0])
    mine = RidgeCV(alphas=[model.ridge_], store_cv_results=True).fit(X, Y[:, 0]).cv_results_.mean()
    assert mine <= 1.01 * cv.cv_results_.mean(axis=0).min() + 1e-12


def test_accuracy_is_that_of_refits_without_each_row():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.standard_normal((3, 25))[y] * 0.6 + rng.standard_normal((60, 25))
    onehot = np.eye(3)[y]

    def right(ridge):
        return (left_out_predictions(X, onehot, ridge, True).argmax(axis=1) == y).sum()

    model = rm.ContinualClassifier(rm.RLS("loo-accuracy")).fit(X, y)
    assert right(model.ridge_) >= max(right(g) for g in grid(X, True)[::4]) - 1
    assert right(model.ridge_) >= right(rm.ContinualClassifier(rm.RLS("loo")).fit(X, y).ridge_)


def test_standardized_columns_weights_and_a_start():
    X, Y = rows(3, 60, 6)
    X = X * np.logspace(-3, 3, 6)
    plain = (X - X.mean(axis=0)) / X.std(axis=0)
    scaled = rm.ContinualRegressor(rm.RLS("loo"), scale="standard").fit(X, Y[:, 0])
    assert scaled.ridge_ == pytest.approx(rm.ContinualRegressor(rm.RLS("loo")).fit(plain, Y[:, 0]).ridge_, rel=1e-6)
    w = np.random.default_rng(0).uniform(0.2, 3.0, 60)
    weighted = rm.ContinualRegressor(rm.RLS("loo")).fit(plain, Y[:, 0], sample_weight=w)
    cv = RidgeCV(alphas=np.append(grid(plain, True), weighted.ridge_), store_cv_results=True)
    errors = cv.fit(plain, Y[:, 0], sample_weight=w).cv_results_.mean(axis=0)
    assert errors[-1] <= 1.01 * errors.min()
    m, start = rm.RLS("loo"), np.ones((6, 1))
    moved = m.update(m.init(6, 1, start=start), plain, Y + plain @ start)
    assert m.ridge_of(moved) == pytest.approx(m.ridge_of(m.update(m.init(6, 1), plain, Y)), rel=1e-9)


def test_balanced_classes_choose_with_their_weights():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [60, 20, 5])
    X = rng.standard_normal((3, 6))[y] + rng.standard_normal((85, 6))
    model = rm.ContinualClassifier(rm.RLS("loo"), class_weight="balanced").fit(X, y)
    weights = (85 / (3 * np.bincount(y)))[y]
    same = rm.ContinualClassifier(rm.RLS("loo")).fit(X, y, sample_weight=weights)
    assert model.ridge_ == pytest.approx(same.ridge_, rel=1e-6)
    np.testing.assert_allclose(model.class_scores(X), same.class_scores(X), atol=1e-8)


def test_large_blocks_choose_again_and_small_ones_keep_the_choice(tmp_path):
    X, Y = rows(4, 200, 8, noise=3.0)
    model = rm.ContinualRegressor(rm.RLS("loo")).partial_fit(X[:20], Y[:20, 0])
    first = model.ridge_
    assert model.partial_fit(X[20:30], Y[20:30, 0]).ridge_ == first
    second = model.partial_fit(X[30:], Y[30:, 0]).ridge_
    assert second != first
    assert model.partial_fit(X[:1], Y[:1, 0]).ridge_ == second
    model.unlearn(X[:1], Y[:1, 0])
    rm.save(model, tmp_path / "m.safetensors")
    assert rm.load(tmp_path / "m.safetensors").ridge_ == copy.deepcopy(model).ridge_ == second
    other = rm.ContinualRegressor(rm.RLS("loo")).fit(X[:20], Y[:20, 0])
    assert copy.deepcopy(other).merge(model).ridge_ == copy.deepcopy(model).merge(other).ridge_ == second
    np.testing.assert_allclose(
        model.coef_, rm.ContinualRegressor(rm.RLS(second), intervals=False).fit(X, Y[:, 0]).coef_, rtol=1e-7
    )


def test_the_errors_kept_for_intervals_do_not_change_the_choice_of_wide_models():
    X, Y = rows(5, 1100, 515, noise=5.0)
    with_errors, without = (
        rm.ContinualRegressor(rm.RLS("loo"), intervals=on).fit(X, Y[:, 0]) for on in ("auto", False)
    )
    assert with_errors.ridge_ == without.ridge_
    low, high = with_errors.predict(X[:5], interval=0.9)[1:]
    assert (high > low).all() and np.isfinite(high).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_choice_follows_the_unit(scale):
    X, Y = rows(5, 50, 4)
    base = rm.ContinualRegressor(rm.RLS("loo")).fit(X, Y[:, 0]).ridge_
    assert rm.ContinualRegressor(rm.RLS("loo")).fit(scale * X, Y[:, 0]).ridge_ == pytest.approx(
        base * scale**2, rel=1e-6
    )
    single = rm.ContinualRegressor(rm.RLS("loo"), dtype="float32").fit(X, Y[:, 0]).ridge_
    assert single == pytest.approx(base, rel=1e-2)


def test_rows_that_say_nothing_keep_one_and_what_cannot_choose_is_refused():
    m = rm.RLS("loo")
    assert m.ridge_of(m.init(3, 1)) == 1.0
    assert m.ridge_of(m.update(m.init(3, 1), np.zeros((4, 3)), np.ones((4, 1)))) == 1.0
    assert m.ridge_of(m.update(m.init(3, 1), np.ones((1, 3)), np.ones((1, 1)))) == 1.0
    for bad in ({"ridge": "loo", "forget": 0.9}, {"ridge": "loo", "forget": "auto"}, {"ridge": "left-out"}):
        with pytest.raises(rm.InputError):
            rm.RLS(**bad)
    X, Y = rows(6, 20, 3)
    model = rm.ContinualRegressor().fit(X, Y[:, 0])
    with pytest.raises(rm.InputError, match="rows, which are not kept"):
        model.set_params(method__ridge="loo").predict(X)
