"""What it costs that something is chosen: the ridge when weights are asked for, and the temperature while learning."""

from collections.abc import Callable
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.rows import Benchmark, Effort, Goal, Row
from benchmarks.timing import measure
from remanence.arrays import Array


def ridge(effort: Effort) -> tuple[Row, ...]:
    """The weights after new rows, with an automatic ridge beside a fixed one."""
    d = effort.features(1000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * d, d))
    Y = X @ rng.standard_normal((d, 1)) + rng.standard_normal((2 * d, 1))

    def question(method: rm.RLS) -> Callable[[], Array]:
        state = method.update(method.init(d, 1), X, Y)
        # (a state that nobody has asked yet, with the same rows)
        return lambda: method.weights(method.with_ridge(state, method.ridge))

    found = measure({"auto": question(rm.RLS("auto")), "fixed": question(rm.RLS(1.0))}, effort)
    what, peer = f'RLS("auto").weights after new rows, d = {d}', "RLS(1.0).weights after new rows"
    pairs = found.pairs("auto", "fixed")
    return (Row("ridge-auto", what, found.best("auto"), peer, found.best("fixed"), Goal("at most", 1.3), rounds=pairs),)


def calibrate(effort: Effort) -> tuple[Row, ...]:
    """Learning 20 000 rows in blocks of 100, with and without counting answers to rows before they are learned."""
    n, d, size = effort.rows(20_000, 1000), 50, 100
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.standard_normal((5, d))[y] + rng.standard_normal((n, d))

    def learn(**settings: Any) -> None:
        model = rm.ContinualClassifier(**settings)
        for i in range(0, n, size):
            model.partial_fit(X[i : i + size], y[i : i + size])

    found = measure({"counted": learn, "bare": lambda: learn(calibrate=False)}, effort)
    what, peer = f"ContinualClassifier(), {n} rows in blocks of {size}, d = {d}, 5 classes", "the same, calibrate=False"
    pairs = found.pairs("counted", "bare", n, n)
    return (
        Row("calibrate", what, found.best("counted", n), peer, found.best("bare", n), Goal("at most"), rounds=pairs),
    )


BENCHMARKS: dict[str, Benchmark] = {"ridge-auto": ridge, "calibrate": calibrate}
