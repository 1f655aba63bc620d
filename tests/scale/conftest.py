"""Data for the cluster: partitions of all sizes, classes in some of them only, columns of many scales."""

import hashlib

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")


def uneven(partitions=64, features=7, seed=0):
    """Rows, labels, targets, and the sizes of partitions: 0, 1, few and many rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 2, 5, 40, 200], partitions)
    sizes[0], sizes[-1] = 0, 30
    n = int(sizes.sum())
    X = rng.standard_normal((n, features)) * np.logspace(0, -6, features)
    part = np.repeat(np.arange(partitions), sizes)
    y = (part // 8) % 3 + rng.integers(0, 3, n)  # some classes only in some partitions
    return X, y, X @ rng.standard_normal(features) + 0.01 * rng.standard_normal(n), sizes


@pytest.fixture(scope="session")
def data():
    return uneven()


@pytest.fixture(scope="session")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as made:
        yield made


@pytest.fixture
def digest():
    """SHA-256 of the coefficients of a model."""
    return lambda model: hashlib.sha256(model.coef_.tobytes() + np.asarray(model.intercept_).tobytes()).hexdigest()
