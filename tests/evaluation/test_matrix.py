"""An error matrix is a value: checked once, unchangeable, printable, drawable, and safe in JSON."""

import dataclasses
import json

import numpy as np
import pytest

from remanence.errors import InputError
from remanence.evaluation import ErrorMatrix

VALUES = np.array([[1.0, 0.25, 0.5], [1.0, 0.75, 0.125]])


def small(**change):
    return ErrorMatrix(
        **({"values": VALUES, "names": ("cats", "dogs"), "loss": "zero_one", "learner": "Toy()"} | change)
    )


def test_json_brings_back_every_number_even_those_json_lacks():
    values = np.array([[0.1, np.inf, np.nan], [-np.inf, 1e-300, 1 / 3]])
    matrix = small(values=values, seconds=[0.5, np.nan])
    text = json.dumps(matrix.to_dict(), allow_nan=False)
    back = ErrorMatrix.from_dict(json.loads(text))
    np.testing.assert_array_equal(back.values, values)
    np.testing.assert_array_equal(back.seconds, [0.5, np.nan])
    assert (back.names, back.loss, back.learner) == (("cats", "dogs"), "zero_one", "Toy()")


def test_accuracy_is_one_minus_the_error_and_only_for_counted_mistakes():
    np.testing.assert_array_equal(small().accuracy, [[0.0, 0.75, 0.5], [0.0, 0.25, 0.875]])
    with pytest.raises(InputError, match="zero_one"):
        _ = small(loss="squared").accuracy


def test_the_table_names_tasks_and_shows_their_errors():
    lines = str(small()).splitlines()
    assert lines[0] == "Toy(): zero_one error on each task"
    assert lines[1].split() == ["tasks", "learned", "0", "1", "2"]
    assert lines[2].split() == ["cats", "1.000", "0.250", "0.500"]
    assert lines[3].split() == ["dogs", "1.000", "0.750", "0.125"]
    assert len({len(line) for line in lines[1:]}) == 1


def test_a_long_table_keeps_its_ends():
    lines = str(ErrorMatrix(np.arange(40 * 41.0).reshape(40, 41))).splitlines()
    assert len(lines) == 2 + 11 and max(map(len, lines)) < 120
    assert lines[1].split()[2:] == ["0", "1", "2", "3", "4", "…", "36", "37", "38", "39", "40"]
    assert lines[-1].split() == [
        "task",
        "40",
        "1599",
        "1600",
        "1601",
        "1602",
        "1603",
        "…",
        *map(str, range(1635, 1640)),
    ]


def test_the_matrix_cannot_be_changed_and_does_not_follow_the_array_it_came_from():
    source = VALUES.copy()
    matrix = small(values=source)
    source[0, 0] = 7.0
    assert matrix.values[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        matrix.values[0, 0] = 7.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        matrix.loss = "squared"


def test_names_and_times_have_defaults():
    matrix = ErrorMatrix(VALUES)
    assert matrix.names == ("task 1", "task 2") and np.isnan(matrix.seconds).all() and matrix.seconds.shape == (2,)


@pytest.mark.parametrize(
    "change",
    [
        {"values": VALUES[:, 1:]},
        {"values": VALUES[0]},
        {"values": np.empty((0, 1))},
        {"names": ("a",)},
        {"seconds": [1.0]},
    ],
)
def test_parts_that_do_not_fit_are_refused(change):
    with pytest.raises(InputError, match="expected"):
        small(**change)


@pytest.mark.parametrize("data", [{}, {"values": 3}, {**small().to_dict(), "seconds": None}])
def test_a_dictionary_of_something_else_is_refused(data):
    with pytest.raises(InputError, match="to_dict"):
        ErrorMatrix.from_dict(data)


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt.subplots()[1]
    plt.close("all")


def test_the_picture_shows_rows_as_tasks_and_numbers_in_contrast(axes):
    assert small().plot(axes) is axes
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), VALUES)
    assert image.get_clim() == (0.0, 1.0)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cats", "dogs"]
    texts = {text.get_position(): text for text in axes.texts}
    assert len(texts) == 6 and texts[(1, 0)].get_text() == "0.25" and texts[(2, 1)].get_text() == "0.12"
    assert texts[(0, 0)].get_color() == "black" and texts[(2, 1)].get_color() == "white"


def test_the_colours_of_a_regression_reach_its_largest_finite_error(axes):
    values = np.array([[np.inf, 8.0, 1.0], [4.0, 2.0, np.nan]])
    ErrorMatrix(values).plot(axes)
    assert axes.images[0].get_clim() == (0.0, 8.0)


def test_a_large_picture_carries_no_numbers(axes):
    assert not ErrorMatrix(np.ones((30, 31))).plot(axes).texts
    fresh = small().plot()
    assert fresh is not axes and len(fresh.texts) == 6


def test_notebooks_show_a_table_that_escapes_names():
    matrix = ErrorMatrix(np.array([[1.0, 0.25, 0.5], [1.0, np.nan, 0.0]]), ("<a>", "b"), "zero_one", learner="R & S")
    html = matrix._repr_html_()
    assert "&lt;a&gt;" in html and "<a>" not in html and "R &amp; S" in html
    assert ">25.0<" in html and ">nan<" in html and html.count("<tr>") == 3
    assert "…" in ErrorMatrix(np.ones((40, 41)))._repr_html_()


def test_the_memory_is_kept_in_the_dictionary_and_may_be_unknown():
    known, unknown = (ErrorMatrix(np.ones((1, 2)), memory=m) for m in (12.0, float("nan")))
    assert ErrorMatrix.from_dict(known.to_dict()).memory == 12.0
    assert np.isnan(ErrorMatrix.from_dict(unknown.to_dict()).memory)
