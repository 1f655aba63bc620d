"""The soft memory of EBP and LinearizedRLS: fading square-root information, centred on the weights as they are.

    minimise over Δ   βⁿ‖R Δ‖² + Σᵢ wᵢ ‖eᵢ − Δᵀxᵢ‖²,    wᵢ = βⁿ⁻ⁱ                              (I1)
    [√βⁿ R  0; √w X  √w E] = Q [R' z; 0 ·],    Δ = R'⁻¹ z                                      (I2)

What was learned before is at its minimum where the weights stand, so it says 0 about the change Δ and nothing but its
factor R is kept. R begins as √λ I: the prior is in it and fades as the samples do. For β > 1 old samples keep their
weight and sample i weighs β⁻ⁱ instead.

Where β < 1 and no sample shows a direction, nothing would hold the weights there against rounding any more, which then
feeds on itself. So a prior that has nearly faded is renewed around the weights as they are by then.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.deep.nn.saved_parts import SavedParts
from remanence.memory.forgetting import WeightSchedule
from remanence.memory.root import Root, prior

PRIOR_FLOOR, PRIOR_RENEWED = 1e-12, 1e-10  # relative to all information: a prior below the first is reset to the second


@dataclass(frozen=True, slots=True)
class Information:
    """How firmly past samples hold the weights, in every direction."""

    factor: Array  # (d, d) R, upper triangular, column-major
    prior_weight: float  # the weight of the prior in it
    count: int  # samples learned

    def updated(self, X: Array, E: Array, forget: float, each: int = 1) -> tuple["Information", Array]:
        """After rows X (n·each, d) with errors E (n·each, c), `each` rows a sample; and the change Δ (d, c)."""
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
        """As arrays and numbers, each under its own name behind `name`."""
        return {f"{name}factor": self.factor, f"{name}held": self.prior_weight, f"{name}count": self.count}


def prior_information(features: int, ridge: float) -> Information:
    """The information of the prior alone."""
    return Information(prior(ridge, np.zeros((features, 1))).factor, ridge, 0)


def information_from_dict(parts: SavedParts, features: int, name: str = "") -> Information:
    """The information out of what `packed` made of it."""
    factor = np.asfortranarray(parts.array(f"{name}factor", features, features))
    parts.check(bool(np.diag(factor).all()) and not np.tril(factor, -1).any(), f"{name}factor")
    return Information(factor, float(parts.number(f"{name}held")), int(parts.number(f"{name}count")))
