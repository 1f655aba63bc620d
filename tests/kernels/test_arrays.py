"""What a kernel is given is checked before memory is touched; bits do not depend on where an array begins."""

import re
from pathlib import Path

import numpy as np
import pytest

from remanence.kernels import constants, filters, kalman, rotations

NATIVE = Path(filters.__file__).parent / "native"


def arguments(dtype=np.float64):
    return [np.zeros((1, 3), dtype), np.ones((4, 3), dtype), np.ones((4, 1), dtype), np.ones(4, dtype), True,
            np.empty((4, 1), dtype)]  # fmt: skip


@pytest.mark.parametrize(
    "place, wrong",
    [
        (0, np.zeros((1, 2))),
        (0, np.zeros((1, 3), int)),
        (0, np.zeros((1, 6))[:, ::2]),
        (1, np.ones((4, 3), np.float32)),
        (1, np.asfortranarray(np.ones((4, 3)))),
        (2, np.ones((3, 1))),
        (3, np.ones((4, 1))),
        (5, np.empty((2, 1))),
    ],
)
def test_arrays_that_do_not_fit_raise_and_change_nothing(place, wrong):
    given = arguments()
    given[place] = wrong
    before = given[0].copy()
    with pytest.raises(TypeError, match=r"kernel|float64"):
        filters.lms_walk(*given)
    assert (given[0] == before).all()


def test_read_only_results_raise():
    given = arguments()
    given[0].flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        filters.lms_walk(*given)


def test_rows_that_are_not_there_raise():
    with pytest.raises(ValueError, match="step and an error"):
        filters.apa_walk(np.zeros((1, 2)), np.ones((4, 2)), np.ones((4, 1)), 0, 1, np.ones(3), np.ones((4, 1)), 0, 0.1)
    with pytest.raises(ValueError, match="even"):
        rotations.rotate_rows(
            np.eye(2), np.zeros((2, 1)), np.zeros(1), np.ones((3, 2)), np.ones((3, 1)), np.ones(3), np.ones(3),
            np.ones((3, 1)),
        )  # fmt: skip
    with pytest.raises(TypeError):
        kalman.smoothed_means(np.zeros((1, 2, 2)), np.zeros((1, 3, 2)), np.zeros((1, 3, 2)), np.zeros((1, 3, 2)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_do_not_depend_on_the_place_in_memory(dtype):
    rng = np.random.default_rng(0)
    found = []
    for offset in range(9):
        given = []
        for shape in ((2, 37), (20, 37), (20, 2), (20,)):
            storage = np.empty(np.prod(shape) + 16, dtype)
            given.append(storage[offset : offset + np.prod(shape)].reshape(shape))
        rng = np.random.default_rng(0)
        for array in given:
            array[...] = rng.standard_normal(array.shape)
        errors = np.empty_like(given[2])
        filters.lms_walk(*given, True, errors)
        found.append(given[0].tobytes() + errors.tobytes())
    assert len(set(found)) == 1


def test_the_constants_of_the_kernels_are_those_of_python():
    text = (NATIVE / "constants.h").read_text()
    written = dict(re.findall(r"#define KALMAN_(\w+) (.+)", text))
    assert len(written) == 11
    for name, value in written.items():
        assert eval(value, {"DBL_EPSILON": np.finfo(float).eps}) == getattr(constants, name), name
