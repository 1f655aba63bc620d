"""Principal components of rows that arrive in blocks, beside scikit-learn's IncrementalPCA and the SVD of all rows."""

from typing import Any

import numpy as np

import remanence as rm
from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, Row, agree, distance
from benchmarks.timing import measure
from remanence.arrays import Array


def _learned(model: Any, X: Array, block: int) -> Any:
    for first in range(0, len(X), block):
        model.partial_fit(X[first : first + block])
    return model


def streaming_svd(effort: Effort) -> tuple[Row, ...]:
    """4 000 rows of 200 columns in blocks of 400: the 20 strongest directions, and all of them."""
    decomposition = peer("sklearn.decomposition")
    d = effort.features(200)
    block = max(effort.rows(400), 2 * d)  # (IncrementalPCA needs as many rows in a block as directions)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10 * block, d)) * np.geomspace(1, 1e-2, d) @ rng.standard_normal((d, d)) + 1.0
    exact = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    ranks = {"streaming-svd": min(20, d), "streaming-svd-full": d}
    calls: dict[str, Any] = {}
    for name, rank in ranks.items():
        calls[name] = lambda rank=rank: _learned(rm.StreamingSVD(rank), X, block)
        calls[f"{name}-peer"] = lambda rank=rank: _learned(decomposition.IncrementalPCA(rank), X, block)
    found = measure(calls, effort)
    agree(found.results["streaming-svd-full"].singular_values_, exact, 1e-12, "singular values at full rank")

    def row(name: str, rank: int) -> Row:
        sides = {"our": name, "their": f"{name}-peer"}
        accuracy = {
            f"{side} singular values from those of all rows": distance(
                found.results[key].singular_values_, exact[:rank]
            )
            for side, key in sides.items()
        }
        return Row(
            name,
            f"StreamingSVD(rank={rank}), {len(X)} × {d} in blocks of {block}",
            found.best(name, len(X)),
            "scikit-learn IncrementalPCA",
            found.best(f"{name}-peer", len(X)),
            Goal("at least", 1.0),
            accuracy=accuracy,
            rounds=found.pairs(name, f"{name}-peer", len(X), len(X)),
        )

    return tuple(row(name, rank) for name, rank in ranks.items())


BENCHMARKS: dict[str, Benchmark] = {"streaming-svd": streaming_svd}
