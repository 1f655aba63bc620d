"""How much work answers may cost: a share of the work of learning, counted in multiplications.

Learning n rows of d features takes about 2nd², and every call has a price of its own. One part of what that earns pays
for solving a readout now and then, the other for answering rows with a readout that is at hand. So rows one by one are
answered one in some tens, rows of a large block almost all or a thousand of them, whatever d and c are.
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array

SOLVING, ANSWERING = 0.2, 0.1  # shares of the work of learning
FREE = 1e9, 3e8  # and what may be spent before: some tenths of a second
CALL = 2e5  # what a call that learns costs beside its rows
ASKING = 3e6  # what a call that answers costs beside its rows
EXPONENTIALS = 700  # per class of a row that is answered: exponentials on a grid
MOST_ROWS, FIRST_ROWS, MOST_SCORES = 2048, 256, 1 << 22  # answered at once; of a first block even on credit
GROWTH = 1 / 16  # a model that grew by less is not solved again for the sake of answers
OUTGROWN = 4.0, 1.5  # a model that grew so many times is another one, with fewer rows than features and with more


@dataclass(frozen=True, slots=True)
class Budget:
    """Work that may be spent."""

    solving: float = FREE[0]
    answering: float = FREE[1]

    def earned(self, rows: int, features: int) -> "Budget":
        """After rows were learned."""
        work = CALL + 2.0 * rows * features**2
        return Budget(self.solving + SOLVING * work, self.answering + ANSWERING * work)

    def spent(self, solving: float = 0.0, answering: float = 0.0) -> "Budget":
        return Budget(max(self.solving - solving, 0.0), max(self.answering - answering, 0.0))

    def affordable(self, row: float) -> int:
        """How many rows of this price can be answered."""
        return int(max(self.answering - ASKING, 0.0) / row)


def is_another(seen: int, solved: int, features: int) -> bool:
    """Whether the model of so many rows is another one than that of the rows at the last solve."""
    return seen >= OUTGROWN[int(seen >= features)] * solved


def price_of_row(features: int, classes: int, factor: bool) -> float:
    """The work of answering a row; `factor`: with its leverage."""
    return 2.0 * features * classes + EXPONENTIALS * (classes + 6) + (features**2 if factor else 0)


def price_of_solving(features: int) -> float:
    """The work of solving a readout."""
    return 2 * ASKING + 2.0 * features**3


def spread(block: int, most: int, classes: int) -> Array:
    """Which rows of a block are answered: at most so many, evenly spread."""
    most = max(min(most, MOST_ROWS, MOST_SCORES // max(classes, 1)), 1)
    if block <= most:
        return np.arange(block)
    return np.unique(np.linspace(0, block - 1, most).astype(int))
