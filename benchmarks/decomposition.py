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


def _projector(components: Array) -> Array:
    return components.T @ components


def streaming_svd(effort: Effort) -> tuple[Row, ...]:
    """4 000 rows of 200 columns: the 20 strongest directions in blocks of 400 and of 100, and all of them."""
    decomposition = peer("sklearn.decomposition")
    d = effort.features(200)
    block = max(effort.rows(400), 2 * d)  # (IncrementalPCA needs as many rows in a block as directions)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10 * block, d)) * np.geomspace(1, 1e-2, d) @ rng.standard_normal((d, d)) + 1.0
    _, exact, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    few = min(20, d)
    ranks = {"streaming-svd": (few, block), "streaming-svd-small-blocks": (few, max(few, block // 4))}
    ranks["streaming-svd-full"] = (d, block)
    calls: dict[str, Any] = {}
    for name, (rank, rows) in ranks.items():
        calls[name] = lambda rank=rank, rows=rows: _learned(rm.StreamingSVD(rank), X, rows)
        calls[f"{name}-peer"] = lambda rank=rank, rows=rows: _learned(decomposition.IncrementalPCA(rank), X, rows)
    found = measure(calls, effort)
    agree(found.results["streaming-svd-full"].singular_values_, exact, 1e-12, "singular values at full rank")
    for name in ranks:  # the same directions, and the same rows from them
        ours, theirs = found.results[name], found.results[f"{name}-peer"]
        agree(_projector(ours.components_), _projector(theirs.components_), 1e-9, "subspaces")
        again = [model.inverse_transform(model.transform(X)) for model in (ours, theirs)]
        agree(again[0], again[1], 1e-9, "reconstructions")

    def row(name: str, rank: int, rows: int) -> Row:
        accuracy = {}
        for side, key in (("our", name), ("their", f"{name}-peer")):
            model = found.results[key]
            apart = distance(model.singular_values_, exact[:rank])
            accuracy[f"{side} singular values from those of all rows"] = apart
            accuracy[f"{side} subspace"] = distance(_projector(model.components_), _projector(V[:rank]))
        return Row(
            name,
            f"StreamingSVD(rank={rank}), {len(X)} × {d} in blocks of {rows}",
            found.best(name, len(X)),
            "scikit-learn IncrementalPCA",
            found.best(f"{name}-peer", len(X)),
            Goal("at least", 1.0),
            accuracy=accuracy,
            rounds=found.pairs(name, f"{name}-peer", len(X), len(X)),
        )

    return tuple(row(name, *setting) for name, setting in ranks.items())


BENCHMARKS: dict[str, Benchmark] = {"streaming-svd": streaming_svd}
