"""Claims about LMS: what one step solves, how fast it forgets, and the steps that end exactly."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances import Generator, Instance, unit_rows
from remanence.checks import Array
from remanence.methods import LMS
from remanence.methods.protocol import Method

STEPS = (1e-3, 0.5, 1.0, 1.5, 1.999)


def samples_of_any_length(rng: Generator) -> Iterator[Instance]:
    """A few samples, from short to long, before which something was learned; steps over all of (0, 2)."""
    for length in (1e-6, 1.0, 1e6):
        for step in STEPS:
            X = length * unit_rows(rng, 4, 5)
            yield {"X": X, "Y": length * rng.standard_normal((4, 2)), "step": step}
    while True:
        d = int(rng.integers(1, 20))
        X = rng.standard_normal((int(rng.integers(1, 12)), d))
        yield {"X": X, "Y": rng.standard_normal((len(X), 2)), "step": float(rng.uniform(0.01, 1.99))}


@claim(
    "One step of LMS is the smallest change that leaves 1 − γ of the error",
    source="problem (LMS)",
    instances=samples_of_any_length,
    conditions=("any ‖x‖ > 0",),
)
def lms_solves_its_constrained_problem(
    X: Array, Y: Array, step: float = 1.0, method: Method[Any] | None = None
) -> Evidence:
    """Each sample is learned alone, and compared with the constrained problem solved by a general solver."""
    lms = LMS(step) if method is None else method
    state = lms.init(X.shape[1], Y.shape[1])
    worst = 0.0
    for x, y in zip(X, Y, strict=True):
        before = np.array(lms.weights(state))
        state = lms.update(state, x[None], y[None])
        error = (y - x @ before)[None]
        smallest = np.linalg.lstsq(x[None], step * error, rcond=None)[0]
        size = np.linalg.norm(before) + np.linalg.norm(smallest)
        worst = max(worst, difference(np.asarray(lms.weights(state)), before + smallest, float(size)))
    # A number goes through two inner products and a few operations more, on either side.
    return Evidence(worst, rounding(1.0, 4 * X.shape[1] + 8), (f"γ = {step:g}",))
