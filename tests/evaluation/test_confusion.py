"""Confusion counts are scikit-learn's, and what is told of them is their worst part."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from remanence.errors import InputError
from remanence.evaluation.confusion import Confusion

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60)


@given(pairs)
def test_counts_are_those_of_scikit_learn_and_survive_json(pairs):
    true, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    found = Confusion.of(true, predicted)
    np.testing.assert_array_equal(found.counts, confusion_matrix(true, predicted, labels=found.labels))
    assert found.wrong == (true != predicted).sum()
    again = Confusion.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.labels == found.labels and (again.counts == found.counts).all()
    told = [rows for *_, rows in found.most_frequent()]
    assert sum(told) == found.wrong and told == sorted(told, reverse=True)
    for label, rows, share in found.hardest():
        assert rows == (true == label).sum() and share == pytest.approx((predicted == true)[true == label].mean())


def test_the_hardest_come_first_and_classes_without_rows_are_left_out():
    found = Confusion.of(["a", "a", "b", "c", "c", "c"], ["a", "a", "d", "c", "b", "b"])
    assert [label for label, *_ in found.hardest()] == ["b", "c", "a"] and found.hardest(1) == [("b", 1, 0.0)]
    assert found.most_frequent(1) == [("c", "b", 2)]
    assert np.isnan(found.accuracies[3])


@pytest.mark.parametrize("triple", [[0, 2, 1], [-1, 0, 1], [0, 0, -1]])
def test_counts_of_unknown_labels_are_refused(triple):
    with pytest.raises(InputError, match="positions"):
        Confusion.from_dict({"labels": ["a", "b"], "counts": [triple]})
