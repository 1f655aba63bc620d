"""Predicting, evaluating and unlearning on a cluster equal one machine, and predictions are lazy."""

import numpy as np
import pytest

import remanence as rm

da = pytest.importorskip("dask.array")
import dask  # noqa: E402


@pytest.fixture
def parts(data):
    X, y, t, sizes = data
    chunks = tuple(int(n) for n in sizes)
    return (da.from_array(X, chunks=(chunks, 7)), *(da.from_array(v, chunks=(chunks,)) for v in (y, t)))


def test_predictions_are_lazy_and_equal_one_machine(data, parts):
    X, y, t, _ = data
    classifier = rm.ContinualClassifier().fit(X, np.array([f"class {k}" for k in y]))
    asked = []
    rows = parts[0].map_blocks(lambda block: asked.append(1) or block, meta=np.empty((0, 7)))
    found = rm.scale.predict(classifier, rows)
    assert not asked and found.chunks == (parts[0].chunks[0],) and found.dtype == classifier.classes_.dtype
    assert (found.compute() == classifier.predict(X)).all()
    regressor = rm.ContinualRegressor().fit(X, np.column_stack([t, -t]))
    np.testing.assert_allclose(rm.scale.predict(regressor, parts[0]).compute(), regressor.predict(X), atol=1e-13)


def test_predictions_of_data_frames_and_delayed_rows(data):
    import dask.dataframe as dd
    import pandas as pd

    X, y, _, _ = data
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    model = rm.ContinualClassifier().fit(frame, y)
    assert (rm.scale.predict(model, dd.from_pandas(frame, npartitions=4)).compute() == model.predict(frame)).all()
    blocks = [dask.delayed(frame.iloc[:50]), dask.delayed(frame.iloc[50:])]
    assert (rm.scale.predict(model, blocks).compute() == model.predict(frame)).all()


def test_evaluation(data, parts):
    X, y, t, _ = data
    classifier, regressor = rm.ContinualClassifier().fit(X, y), rm.ContinualRegressor().fit(X, t)
    found = rm.scale.evaluate(classifier, parts[0], parts[1])
    assert found.rows == len(X) and found.accuracy == pytest.approx(classifier.score(X, y))
    errors = rm.scale.evaluate(regressor, parts[0], parts[2]).errors["output 0"]
    assert errors["r2"] == pytest.approx(regressor.score(X, t))


def test_unlearning(data, parts):
    X, y, _, _ = data
    model = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X, y)
    left = rm.scale.unlearn(model, parts[0][:400], parts[1][:400])
    rest = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X[400:], y[400:])
    assert model.n_seen_ == len(X) and left.n_seen_ == len(X) - 400
    np.testing.assert_allclose(left.decision_function(X), rest.decision_function(X), atol=1e-9)
    with pytest.raises(rm.InputError, match="partition"):
        rm.scale.unlearn(model, parts[0] * 1e3, parts[1])
    assert model.n_seen_ == len(X)


def test_several_labels_per_row(data):
    X, _, _, _ = data
    Y = (X[:, :3] / np.logspace(0, -2, 3) > 0.3).astype(int)
    sets = [[name for name, has in zip("abc", row, strict=True) if has] for row in Y]
    for labels in (Y, sets):
        halves = [(X[:300], labels[:300]), (X[300:], labels[300:])]
        blocks = [dask.delayed(half, traverse=False) for half in halves]
        one, many = rm.ContinualClassifier().fit(X, labels), rm.scale.fit(rm.ContinualClassifier(), blocks)
        assert (rm.scale.predict(many, blocks).compute() == one.predict(X)).all()
        found = rm.scale.evaluate(many, blocks)
        assert found.rows == len(X) and found.accuracy == pytest.approx(one.score(X, labels))


def test_labels_of_another_kind_are_refused_with_their_partition(data, parts):
    X, y, _, _ = data
    model = rm.ContinualClassifier().fit(X, y)
    with pytest.raises(rm.InputError, match=r"partition \d+: .*numbers.*text"):
        rm.scale.evaluate(model, parts[0], parts[1].astype(str))
