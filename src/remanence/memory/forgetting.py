"""How much each row weighs under a forgetting factor β: powers of β, scaled so that none overflows.

β ≤ 1: the newest row weighs 1, the k-th before it βᵏ          β > 1: row i weighs β⁻ⁱ, for good          (F)
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array


@dataclass(frozen=True, slots=True)
class WeightSchedule:
    """The weights of rows and prior under a forgetting factor β > 0."""

    forget: float
    floor: float = 0.0  # the prior never weighs less

    def rows(self, first: int, n: int) -> tuple[Array | None, float]:
        """The weights of n rows that follow `first` others, and the factor by which those decay meanwhile."""
        if self.forget == 1:
            return None, 1.0
        if self.forget < 1:
            return self.forget ** np.arange(n - 1.0, -1.0, -1.0), float(self.forget**n)
        return np.exp(-np.log(self.forget) * np.arange(first + 1.0, first + n + 1.0)), 1.0

    def gain(self, first: int) -> float:
        """The weight of a row that follows `first` others, apart from its power within a block."""
        return 1.0 if self.forget <= 1 else float(np.exp(-np.log(self.forget) * first))

    def prior_decay(self, count: int) -> float:
        """The factor by which the weight of the prior decays over `count` rows."""
        return float(self.forget**count) if self.forget < 1 else 1.0

    @property
    def decays_uniformly(self) -> bool:
        """Whether the prior decays as the rows do, so that new rows can be added to an earlier posterior."""
        return self.floor == 0 or self.forget >= 1

    def effective_count(self, count: int) -> float:
        """The sum of the weights of `count` rows, as a number of samples."""
        return float(count) if self.forget >= 1 else float((1 - self.forget**count) / (1 - self.forget))

    def block_rows(self, features: int) -> int:
        """Rows to fold as one block: matrix speed, small Gram matrices, and no row decays below 0.01 inside it."""
        rows = 128 if self.forget >= 1 else min(128, int(np.log(0.01) / np.log(self.forget)))
        return max(1, min(rows, max(32, features)))
