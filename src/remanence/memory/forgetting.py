"""How much a row weighs as others follow it: the powers of β, scaled so that none overflows.

β ≤ 1: the newest row weighs 1, the k-th before it βᵏ          β > 1: row i weighs β⁻ⁱ, for good          (F)
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array


@dataclass(frozen=True, slots=True)
class Fading:
    """The weights of rows under a forgetting factor β > 0."""

    forget: float

    def rows(self, first: int, n: int) -> tuple[Array | None, float]:
        """The weights of n rows that follow `first` others, and the factor by which those fade meanwhile."""
        if self.forget == 1:
            return None, 1.0
        if self.forget < 1:
            return self.forget ** np.arange(n - 1.0, -1.0, -1.0), float(self.forget**n)
        return np.exp(-np.log(self.forget) * np.arange(first + 1.0, first + n + 1.0)), 1.0

    def gain(self, first: int) -> float:
        """The weight of a row that follows `first` others, apart from its power within a block."""
        return 1.0 if self.forget <= 1 else float(np.exp(-np.log(self.forget) * first))

    def prior(self, count: int) -> float:
        """What is left of the weight of the prior after `count` rows."""
        return float(self.forget**count) if self.forget < 1 else 1.0

    def effective(self, count: int) -> float:
        """The sum of the weights of `count` rows, as a number of samples."""
        return float(count) if self.forget >= 1 else float((1 - self.forget**count) / (1 - self.forget))

    def widest(self, features: int) -> int:
        """Rows to treat as one block: matrix speed, small Gram matrices, and no row fades below 0.01 inside it."""
        rows = 128 if self.forget >= 1 else min(128, int(np.log(0.01) / np.log(self.forget)))
        return max(1, min(rows, max(32, features)))
