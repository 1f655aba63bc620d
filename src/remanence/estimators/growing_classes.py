"""Classes that grow with the labels of a stream: the meaning of `classes=` and of labels never met before."""

from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.estimators.input_checks import check_labels
from remanence.labels import check_same_kind


def grow_classes(known: Array | None, y: Array, announced: Any = None) -> tuple[Array, Array]:
    """The sorted classes after a block of labels y, and the position of every known class among them.

    `announced` is the argument `classes` of `partial_fit`: labels that become classes before their first row. It is
    never needed and restricts nothing, so that labels outside of it become classes too.
    """
    found = np.unique(y)
    if announced is not None:
        labels = check_labels(announced)
        check_same_kind(labels, y)
        found = _union(found, labels)
    if known is None:
        return found, np.empty(0, int)
    classes = _union(known, found)
    if len(classes) == len(known):
        return known, np.arange(len(known))
    return classes, np.searchsorted(classes, known)


def _union(known: Array, found: Array) -> Array:
    """The labels of both, sorted; an InputError where no dtype can tell them all apart."""
    both = np.union1d(known, found)
    for labels in (known, found):
        if both.dtype != labels.dtype and both.dtype.kind not in "US":
            with np.errstate(invalid="ignore"):
                same = (both.astype(labels.dtype)[np.searchsorted(both, labels)] == labels).all()
            if not same:
                raise InputError(
                    f"expected integers that can be told apart as {both.dtype}, got labels of {known.dtype} and "
                    f"{found.dtype} beyond 2^53; use text labels"
                )
    return both
