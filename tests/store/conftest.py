"""Small models, and the way through a file without a disk."""

import numpy as np
import pytest

import remanence as rm
from remanence.store.model_file import ModelFile, from_bytes, to_buffers


def content_of(learner, **rest):
    return b"".join(bytes(part) for part in to_buffers(ModelFile(learner, **rest)))


def through_a_file(learner, **outside):
    return from_bytes(content_of(learner), **outside).learner


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)


@pytest.fixture
def small(rows):
    """A classifier that has learned, been asked, and has rows waiting."""
    X, y = rows
    model = rm.ContinualClassifier(rm.RLS(ridge=0.5)).partial_fit(X[:50], y[:50])
    model.predict(X)
    return model.partial_fit(X[50:53], y[50:53])
