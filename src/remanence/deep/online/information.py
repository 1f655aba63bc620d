"""The memory of EBP and LinearizedRLS: square-root information with forgetting, centred on the current weights.

    minimise over Δ   βⁿ‖R Δ‖² + Σᵢ wᵢ ‖eᵢ − Δᵀxᵢ‖²,    wᵢ = βⁿ⁻ⁱ                              (I1)
    [√βⁿ R  0; √w X  √w E] = Q [R' z; 0 ·],    Δ = R'⁻¹ z                                      (I2)

The loss of earlier samples is at its minimum at the current weights, so it contributes a zero target for the change Δ
and only its factor R is stored. R starts as √λ I: it includes the prior, which decays like the samples. For β > 1
earlier samples keep their weight and sample i has the weight β⁻ⁱ instead.

If β < 1 and no sample excites a direction, rounding errors would eventually grow unchecked along it. A prior that has
nearly decayed is therefore renewed around the current weights.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.deep.nn.saved_parts import SavedParts
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.root import Root, prior

# relative to all information: a prior below the first is reset to the second
PRIOR_FLOOR, PRIOR_RENEWED = 1e-12, 1e-10


@dataclass(frozen=True, slots=True)
class Information:
    """The square root of the information that past samples give about the weights."""

    factor: Array  # (d, d) R, upper triangular, column-major
    prior_weight: float  # remaining weight of the prior
    count: int  # samples learned

    def updated(self, X: Array, E: Array, forget: float, each: int = 1) -> tuple["Information", Array]:
        """Return the information after rows X (n·each, d) with errors E (n·each, c), and the change Δ (d, c).

        `each` is the number of rows per sample.
        """
        samples, schedule = len(X) // each, WeightSchedule(forget)
        weights, decay = schedule.rows(self.count, samples)
        weights = None if weights is None else np.repeat(weights, each)
        still = np.zeros((len(self.factor), E.shape[1]), order="F")
        root = Root(self.factor, still, np.zeros(E.shape[1])).folded(X, E, weights, decay)  # (I2)
        prior_weight = self.prior_weight * schedule.prior_decay(samples)
        if forget < 1 and prior_weight < PRIOR_FLOOR * root.size() ** 2:
            prior_weight = PRIOR_RENEWED * root.size() ** 2
            root = root.flush_tiny().with_prior(prior_weight, still)
        return Information(root.factor, prior_weight, self.count + samples), root.solve()

    def to_dict(self, name: str = "") -> dict[str, Any]:
        """Return arrays and numbers, with `name` as prefix of each key."""
        return {f"{name}factor": self.factor, f"{name}held": self.prior_weight, f"{name}count": self.count}


def prior_information(features: int, ridge: float) -> Information:
    """Return the information of the prior alone."""
    return Information(prior(ridge, np.zeros((features, 1))).factor, ridge, 0)


def information_from_dict(parts: SavedParts, features: int, name: str = "") -> Information:
    """Return the information that `to_dict` converted."""
    factor = np.asfortranarray(parts.array(f"{name}factor", features, features))
    parts.check(bool(np.diag(factor).all()) and not np.tril(factor, -1).any(), f"{name}factor")
    return Information(factor, float(parts.number(f"{name}held")), int(parts.number(f"{name}count")))
