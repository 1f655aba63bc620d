"""A fit on a cluster equals the fit on one machine, with the same bits on any number of workers."""

import asyncio

import numpy as np
import pytest

import remanence as rm

da = pytest.importorskip("dask.array")
import dask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402


def arrays(X, y, sizes, unknown=False):
    X = da.from_array(X, chunks=(tuple(int(n) for n in sizes), X.shape[1]))
    y = da.from_array(y, chunks=(tuple(int(n) for n in sizes),))
    if unknown:
        every = y == y
        X, y = X[every], y[every]
        assert np.isnan(X.chunks[0]).all()
    return X, y


@pytest.mark.parametrize("method", [rm.RLS(ridge=1e-3), rm.RLS(ridge="auto")])
def test_a_classifier_equals_one_machine(data, method):
    X, y, _, sizes = data
    one = rm.ContinualClassifier(method).fit(X, y)
    many = rm.scale.fit(rm.ContinualClassifier(method), *arrays(X, y, sizes))
    assert many.classes_.tolist() == one.classes_.tolist() and many.n_seen_ == len(X)
    scale = abs(one.decision_function(X)).max()
    np.testing.assert_allclose(many.decision_function(X), one.decision_function(X), atol=1e-11 * scale)
    assert (many.predict(X) == one.predict(X)).all()


def test_a_regressor_equals_one_machine(data):
    X, _, t, sizes = data
    one = rm.ContinualRegressor(rm.RLS(ridge=1e-6)).fit(X, t)
    many = rm.scale.fit(rm.ContinualRegressor(rm.RLS(ridge=1e-6)), *arrays(X, t, sizes))
    np.testing.assert_allclose(many.predict(X), one.predict(X), atol=1e-11 * abs(t).max())


def test_partitions_of_unknown_sizes(data, digest):
    X, y, _, sizes = data
    whole, unknown = (rm.scale.fit(rm.ContinualClassifier(), *arrays(X, y, sizes, u)) for u in (False, True))
    assert digest(whole) == digest(unknown)


def test_random_features_and_an_encoder(data):
    from sklearn.preprocessing import StandardScaler

    X, y, _, sizes = data
    first = X[: sizes[np.flatnonzero(sizes)[0]]]
    scaled = rm.RandomFeatures(20, activation="tanh").fit(first)  # (its scale comes from the first rows)
    for features, same in ((rm.RandomFeatures(20, activation="tanh"), scaled), (StandardScaler().fit(X),) * 2):
        model = rm.ContinualClassifier(rm.RLS(ridge=0.1), features=features)
        many = rm.scale.fit(model, *arrays(X, y, sizes))
        one = rm.ContinualClassifier(rm.RLS(ridge=0.1), features=same).fit(X, y)
        np.testing.assert_allclose(many.decision_function(X), one.decision_function(X), atol=1e-10)


def test_more_rows_later_and_the_model_given_stays_as_it_was(data, digest):
    X, y, _, sizes = data
    first = rm.ContinualClassifier().fit(X[:100], y[:100])
    before = digest(first)
    both = rm.scale.partial_fit(first, *arrays(X[100:], y[100:], [len(X) - 100]))
    assert digest(first) == before and first.n_seen_ == 100 and both.n_seen_ == len(X)
    np.testing.assert_allclose(
        both.decision_function(X), rm.ContinualClassifier().fit(X, y).decision_function(X), atol=1e-11
    )
    begun = rm.scale.partial_fit(rm.ContinualClassifier(), *arrays(X, y, sizes))
    assert digest(begun) == digest(rm.scale.fit(first, *arrays(X, y, sizes)))


def test_a_data_frame_with_names(data):
    import dask.dataframe as dd
    import pandas as pd

    X, y, _, _ = data
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    one = rm.ContinualClassifier().fit(frame, y)
    many = rm.scale.fit(rm.ContinualClassifier(), dd.from_pandas(frame.assign(kind=y), npartitions=9), "kind")
    assert list(many.feature_names_in_) == list("abcdefg")
    np.testing.assert_allclose(many.decision_function(frame), one.decision_function(frame), atol=1e-11)
    beside = rm.scale.fit(
        rm.ContinualClassifier(), dd.from_pandas(frame, npartitions=9), dd.from_pandas(pd.Series(y), npartitions=9)
    )
    np.testing.assert_allclose(beside.decision_function(frame), one.decision_function(frame), atol=1e-11)
    two = rm.scale.fit(rm.ContinualRegressor(), dd.from_pandas(frame, npartitions=3), ["a", "b"])
    assert two.predict(frame[list("cdefg")]).shape == (len(X), 2)


def test_delayed_blocks_are_each_computed_once(data):
    X, y, _, _ = data
    seen = []

    def block(i):
        seen.append(i)
        return X[i::5], y[i::5]

    many = rm.scale.fit(rm.ContinualClassifier(), [dask.delayed(block)(i) for i in range(5)])
    assert sorted(seen) == list(range(5)) and many.n_seen_ == len(X)


def test_the_same_bits_on_any_number_of_workers(data, digest):
    X, y, _, sizes = data
    model, found = rm.ContinualClassifier(rm.RLS(ridge=1e-3)), set()
    for workers, threads in ((1, 1), (2, 1), (3, 2), (4, 1)):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=threads, processes=False, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster) as client,
        ):
            assert len(client.nthreads()) == workers
            found.add(digest(rm.scale.fit(model, *arrays(X, y, sizes), client=client)))
    found.add(digest(rm.scale.fit(model, *arrays(X, y, sizes))))
    assert len(found) == 1


def test_two_fits_at_once_and_an_asynchronous_client(data, digest):
    X, y, t, sizes = data

    async def both():
        async with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=False,
                dashboard_address="127.0.0.1:0",
                asynchronous=True,
            ) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            return await asyncio.gather(
                rm.scale.fit(rm.ContinualClassifier(), *arrays(X, y, sizes), client=client),
                rm.scale.fit(rm.ContinualRegressor(), *arrays(X, t, sizes), client=client),
            )

    classifier, regressor = asyncio.run(both())
    assert digest(classifier) == digest(rm.scale.fit(rm.ContinualClassifier(), *arrays(X, y, sizes)))
    assert digest(regressor) == digest(rm.scale.fit(rm.ContinualRegressor(), *arrays(X, t, sizes)))


def test_a_bad_partition_is_named_and_nothing_changes(data, cluster, digest):
    X, y, _, sizes = data
    bad = X.copy()
    bad[np.cumsum(sizes)[9] - 1] = np.nan
    model = rm.ContinualClassifier().fit(X, y)
    before = digest(model)
    with Client(cluster) as client, pytest.raises(rm.InputError, match=r"partition \d+: .*NaN"):
        rm.scale.partial_fit(model, *arrays(bad, y, sizes), client=client)
    assert digest(model) == before


def test_bad_use_is_refused_with_advice(data, cluster):
    import pandas as pd
    from scipy import sparse

    X, y, _, sizes = data
    Xd, yd = arrays(X, y, sizes)
    for method in (rm.LMS(), rm.RLS(forget=0.9), rm.ICL()):
        with pytest.raises(rm.InputError, match="merged"):
            rm.scale.fit(rm.ContinualClassifier(method), Xd, yd)
    with pytest.raises(rm.InputError, match="ContinualClassifier"):
        rm.scale.fit(rm.RLS(), Xd, yd)
    with pytest.raises(rm.InputError, match="labels"):
        rm.scale.fit(rm.ContinualClassifier(), Xd)
    for rows, kind in ((X, "ndarray"), (pd.DataFrame(X), "DataFrame"), (sparse.csr_array(X), "csr_array")):
        with pytest.raises(rm.InputError, match=f"dask.* got {kind}; rows of this machine"):
            rm.scale.fit(rm.ContinualClassifier(), rows, y)
    with pytest.raises(rm.InputError, match="label for each"):
        rm.scale.fit(rm.ContinualClassifier(), Xd, yd[:-1])
    with pytest.raises(rm.InputError, match="got none"):
        rm.scale.fit(rm.ContinualClassifier(), Xd[:0], yd[:0])
    client = Client(cluster)
    client.close()
    with pytest.raises(rm.InputError, match="closed"):
        rm.scale.fit(rm.ContinualClassifier(), Xd, yd, client=client)


def test_sparse_blocks(data):
    from scipy import sparse

    X, y, _, sizes = data
    ends = np.cumsum(sizes)[:-1]
    parts = zip(np.split(X * (X > 0), ends), np.split(y, ends), strict=True)
    blocks = [dask.delayed((sparse.csr_array(rows), labels), traverse=False) for rows, labels in parts]
    one, many = rm.ContinualClassifier().fit(X * (X > 0), y), rm.scale.fit(rm.ContinualClassifier(), blocks)
    np.testing.assert_allclose(many.coef_, one.coef_, atol=1e-10 * abs(one.coef_).max())
    found = rm.scale.predict(many, [dask.delayed(sparse.csr_array(X * (X > 0)))])
    assert (found.compute() == one.predict(X * (X > 0))).all()


def pairs(n, X, y, **others):
    """Delayed blocks, all the same but for some: block_3=(X, y)."""
    return [dask.delayed(others.get(f"block_{i}", (X, y)), traverse=False) for i in range(n)]


@pytest.mark.parametrize("n", [3, 64])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_block_of_other_columns_or_labels_is_named(n, k):
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2
    for bad in ((np.hstack([X, X]), y), (X, y.astype(str))):
        names = rf"block {k}\b.*differs|differs from block {k}\b"
        with pytest.raises(rm.InputError, match=names):
            rm.scale.fit(rm.ContinualClassifier(), pairs(n, X, y, **{f"block_{k}": bad}))
    one = rm.ContinualClassifier().fit(X, y)
    with pytest.raises(rm.InputError, match="block 0 differs from what was learned before"):
        rm.scale.partial_fit(one, pairs(1, np.hstack([X, X]), y))


@pytest.mark.parametrize("value", [np.ones((5, 3)), None, "text", (np.ones((5, 3)),) * 3, (np.ones((5, 3)), 1)])
def test_a_block_that_is_no_pair_is_named(value):
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2
    with pytest.raises(rm.InputError, match=r"block 1: expected a (pair|label)"):
        rm.scale.fit(rm.ContinualClassifier(), pairs(2, X, y, block_1=value))


def test_blocks_are_counted_once_in_the_memory_of_workers(data):
    """A task for rows and one for labels would count them again, beside the pair itself."""
    X, y, _, _ = data
    made = dask.delayed((X, y), traverse=False)
    (block,) = rm.scale.blocks.blocks_of(rm.ContinualClassifier(), [made])
    assert block.X.key == made.key and block.y is None
