"""The array type of the library, and views that cannot be written to."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


def read_only(array: Array) -> Array:
    """A view of `array` that cannot be written to, so that a caller cannot change a state through its weights."""
    view = array.view()
    view.flags.writeable = False
    return view
