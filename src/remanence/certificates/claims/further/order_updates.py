"""Claims about networks that grow: a column added to a least-squares problem is one that was always there."""

from collections.abc import Callable, Iterator

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.memory.growing.new_columns import with_column
from remanence.memory.root import Root, prior

RIDGE = 0.01
AddColumn = Callable[[Root, Array, Array, Array, float], Root]


def rows_and_columns(rng: Generator) -> Iterator[Instance]:
    """Rows, and columns that come one after the other; fewer rows than columns too."""
    while True:
        n, d, k = int(rng.integers(2, 40)), int(rng.integers(1, 8)), int(rng.integers(1, 5))
        X, H = rng.standard_normal((n, d)), np.tanh(rng.standard_normal((n, k)))
        yield {"X": X, "H": H, "Y": rng.standard_normal((n, 2))}


@claim(
    "Output weights after units were added one by one are those of a refit with all of them",
    source="Azimi-Sadjadi, Sheedvash and Trujillo (1993); growing networks in the paper's closing section",
    instances=rows_and_columns,
    conditions=(f"ridge {RIDGE}", "the units of earlier ones stay"),
)
def units_added_one_by_one_equal_a_refit(X: Array, H: Array, Y: Array, add: AddColumn = with_column) -> Evidence:
    """Weights by order updates, against least squares over the rows and the prior."""
    root, columns = prior(RIDGE, np.zeros((X.shape[1], 2))).folded(X, Y), X
    for h in H.T:
        root, columns = add(root, columns, Y, h, RIDGE), np.column_stack([columns, h])
    width = columns.shape[1]
    A = np.vstack([columns, np.sqrt(RIDGE) * np.eye(width)])
    exact = np.linalg.lstsq(A, np.vstack([Y, np.zeros((width, 2))]), rcond=None)[0]
    kappa = float(np.linalg.cond(A)) ** 2
    return Evidence(difference(root.solve(), exact), rounding(kappa, 4 * A.size), (f"cond² {kappa:.0e}",))
