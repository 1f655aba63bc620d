"""Sparse rows: the same model as dense ones, within bounded memory."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import remanence as rm
from remanence.memory.sparse import sparse_rows

FORMS = [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.lil_array]
METHODS = [
    rm.RLS(0.1),
    rm.RLS("auto"),
    rm.RLS(0.1, forget=0.99),
    rm.RLS(forget=0),
    rm.LowRankRLS(8, 0.1),
    rm.LowRankRLS(40, 0.1),
    rm.LMS(0.5),
    rm.APA(3),
    rm.ICL(),
    rm.Kalman(0.01),
]


def rows(n=90, d=30, density=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=density, rng=rng, format="csr")
    W = rng.standard_normal((d, 2))
    return X, X @ W, rng.integers(0, 3, n)


def same(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(np.abs(b).max(), 1.0))


@pytest.fixture(params=[1 << 23, 30 * 16], ids=["one block", "many blocks"])
def block(request, monkeypatch):
    monkeypatch.setattr(sparse_rows, "BLOCK", request.param)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_sparse_equals_dense(block, method, intercept):
    X, Y, y = rows(d=30 if method != rm.RLS(forget=0) else 200)
    if method != rm.RLS(forget=0):
        X.data[X.indptr[7] : X.indptr[8]] = 0  # a row of zeros, which are stored
    weights = np.arange(90) % 3 if isinstance(method, rm.RLS | rm.LowRankRLS) and method != rm.RLS(forget=0) else None
    for kind, aim in ((rm.ContinualRegressor, Y), (rm.ContinualClassifier, y)):
        form = FORMS[len(str(method)) % len(FORMS)]
        given = (None, None) if weights is None else (weights[:60], weights[60:])
        thin, thick = (kind(method, fit_intercept=intercept) for _ in range(2))
        thin.fit(form(X[:60]), aim[:60], sample_weight=given[0])
        thin.partial_fit(form(X[60:]), aim[60:], sample_weight=given[1])
        thick.fit(X[:60].toarray(), aim[:60], sample_weight=given[0])
        thick.partial_fit(X[60:].toarray(), aim[60:], sample_weight=given[1])
        ask = "predict" if kind is rm.ContinualRegressor else "class_scores"
        same(getattr(thin, ask)(form(X)), getattr(thick, ask)(X.toarray()))
        same(thin.coef_, thick.coef_)
        assert thin.n_seen_ == thick.n_seen_


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_unlearning_and_merging_sparse_rows(block, kind, tmp_path):
    X, Y, y = rows()
    made, aim = (rm.ContinualRegressor, Y) if kind == "regressor" else (rm.ContinualClassifier, y)
    model = made(rm.RLS(0.1)).fit(X[:50], aim[:50])
    model.merge(made(rm.RLS(0.1)).fit(X[50:], aim[50:]))
    rm.save(model, tmp_path / "m")
    model = rm.load(tmp_path / "m").unlearn(X[20:80], aim[20:80])
    kept = np.r_[0:20, 80:90]
    whole = made(rm.RLS(0.1)).fit(X[kept].toarray(), aim[kept])
    same(model.coef_, whole.coef_, 1e-10)
    same(model.coef_, made(rm.RLS(0.1)).fit(X[kept], aim[kept]).coef_, 1e-10)


def test_of_low_rank_merged_and_saved(tmp_path):
    X, _, y = rows(200, 50, 0.1)
    method = rm.LowRankRLS(60, 0.1)
    model = rm.ContinualClassifier(method).fit(X[:100], y[:100])
    rm.save(model, tmp_path / "m")
    model = rm.load(tmp_path / "m").partial_fit(X[100:150], y[100:150])
    model.merge(rm.ContinualClassifier(method).fit(X[150:], y[150:]))
    same(
        model.class_scores(X), rm.ContinualClassifier(rm.RLS(0.1)).fit(X.toarray(), y).class_scores(X.toarray()), 1e-11
    )


@pytest.mark.parametrize("method", [rm.RLS(0.1), rm.LowRankRLS(30, 0.1)], ids=str)
def test_equals_ridge_of_scikit_learn(method):
    X, Y, _ = rows()
    oracle = Ridge(0.1).fit(X.toarray(), Y)
    model = rm.ContinualRegressor(method).fit(X, Y)
    same(model.predict(X), oracle.predict(X.toarray()), 1e-10)
    _, std = model.predict(X, return_std=True)
    same(std, model.predict(X.toarray(), return_std=True)[1])
    same(model.predict(X, interval=0.5)[1], model.predict(X.toarray(), interval=0.5)[1])


def test_in_single_precision():
    X, Y, _ = rows()
    for method in (rm.RLS(0.1), rm.LowRankRLS(10, 0.1)):
        thin = rm.ContinualRegressor(method, dtype="float32").fit(X, Y)
        same(thin.predict(X), rm.ContinualRegressor(method, dtype="float32").fit(X.toarray(), Y).predict(X), 1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_of_any_size(scale):
    X, Y, _ = rows()
    X.data += 3 * (X.indices == 2)
    for method in (rm.RLS(0.1 * scale**2), rm.LowRankRLS(10, 0.1 * scale**2)):
        thin = rm.ContinualRegressor(method).fit(scale * X, Y)
        thick = rm.ContinualRegressor(method).fit((scale * X).toarray(), Y)
        same(thin.predict(scale * X), thick.predict((scale * X).toarray()))


TEXTS = ["the cat sat", "a cat and a dog", "stocks fell today", "stocks rose", "dogs bark", "markets rose", "the dog"]
TOPICS = ["pets", "pets", "money", "money", "pets", "money", "pets"]


def test_texts_through_a_pipeline():
    pipeline = make_pipeline(TfidfVectorizer(), rm.ContinualClassifier(rm.RLS(0.1)))
    assert pipeline.fit(TEXTS, TOPICS).predict(["the cat", "stocks fell"]).tolist() == ["pets", "money"]
    words = pipeline[0].transform(TEXTS)
    dense = rm.ContinualClassifier(rm.RLS(0.1)).fit(words.toarray(), TOPICS)
    same(pipeline.decision_function(TEXTS), dense.decision_function(words.toarray()))


def test_features_take_and_give_sparse_rows():
    X, _, y = rows()
    model = rm.ContinualClassifier(features=TruncatedSVD(5).fit(X)).fit(X, y)
    assert model.coef_.shape == (3, 5) and model.predict(X).shape == (90,)
    drawn = rm.ContinualClassifier(features=rm.RandomFeatures(20)).fit(X, y)
    dense = rm.ContinualClassifier(features=rm.RandomFeatures(20)).fit(X.toarray(), y)
    same(drawn.class_scores(X), dense.class_scores(X.toarray()))


def test_too_many_columns_are_refused_with_a_way_out():
    X, y = sparse.csr_matrix((12, 30_000)), np.arange(12) % 2
    for made in (rm.ContinualClassifier, rm.ContinualRegressor):
        model = made()
        with pytest.raises(rm.InputError, match=r"at most 20000 columns.*LowRankRLS.*HashingVectorizer"):
            model.fit(X, y)
        assert not hasattr(model, "state_")
        made(rm.LMS()).fit(X, y)
        made(rm.LowRankRLS(3)).fit(X, y)
    with pytest.raises(rm.InputError, match=r"GB of memory.*LowRankRLS|GB of memory.*rank"):
        rm.ContinualRegressor(rm.LMS()).fit(sparse.csr_matrix((3, 10**12)), np.arange(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_bad_entries_are_refused_and_change_nothing(bad):
    X, Y, _ = rows()
    model = rm.ContinualRegressor().fit(X, Y)
    before, broken = dict(vars(model)), X.copy()
    broken.data[-1] = bad
    for call in (model.partial_fit, model.unlearn):
        with pytest.raises(rm.InputError):
            call(broken, Y)
    if bad != 1e200:
        with pytest.raises(rm.InputError):
            model.predict(broken)
    assert all(vars(model)[name] is value for name, value in before.items())
    with pytest.raises(rm.InputError, match="feature"):
        model.predict(X[:, :4])
    with pytest.raises(rm.InputError):
        model.fit(X.astype(complex), Y)
    with pytest.raises(rm.InputError):
        model.fit(X, sparse.csr_matrix(Y))


def test_wide_rows_stay_sparse():
    """A tenth of what dense rows would take, in a process of its own."""
    code = """
import numpy as np, scipy.sparse as sparse, remanence as rm
rng = np.random.default_rng(0)
X = sparse.random_array((1000, 40_000), density=1e-3, rng=rng, format="csr")
y = rng.integers(0, 2, 1000)
model = rm.ContinualClassifier(rm.LowRankRLS(16), calibrate=False)
model.fit(X[:100], y[:100])
peak = lambda: int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
before = peak()
model.fit(X, y).predict(X)
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 80_000  # kB; the rows alone would be 320 000


@pytest.mark.sweep
def test_a_hundred_thousand_columns_and_rows_in_two_gigabytes():
    """With 0.1 % of the entries; dense rows would take 80 GB, and their memory as much again."""
    code = """
import numpy as np, scipy.sparse as sparse, remanence as rm
rng, n = np.random.default_rng(0), 100_000
def rows(count):
    columns = rng.integers(0, n, (count, n // 1000), dtype=np.int32)
    columns[:, 0] = rng.integers(0, 8, count)  # what decides, and is met often
    starts = np.arange(0, columns.size + 1, n // 1000)
    return sparse.csr_matrix((np.ones(columns.size), columns.ravel(), starts), (count, n)), columns[:, 0] % 2
X, y = rows(n)
model = rm.ContinualClassifier(rm.LowRankRLS(16)).fit(X[: n // 2], y[: n // 2]).partial_fit(X[n // 2 :], y[n // 2 :])
Xt, yt = rows(2000)
right = float((model.predict(Xt) == yt).mean())
peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
print(peak, right, model.n_seen_)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    peak, right, seen = done.stdout.split()
    assert int(peak) < 2_000_000 and float(right) > 0.9 and int(seen) == 100_000
