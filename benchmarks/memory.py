"""Peak memory of learning, measured in fresh processes: `python -m benchmarks.memory 2048 2000`."""

import gc
import json
import subprocess
import sys
import tracemalloc
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import remanence as rm
from benchmarks.data import linear_rows
from benchmarks.rows import Benchmark, Effort, Goal, Limit, Row
from remanence.arrays import Array


def arrays(value: Any, seen: set[int] | None = None) -> list[Array]:
    """Every array that a state holds, each storage once; knows dataclasses and classes with slots."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if value.base is not None and isinstance(value.base, np.ndarray):
            return arrays(value.base, seen)
        return [value]
    names = [field.name for field in fields(value)] if is_dataclass(value) else getattr(value, "__slots__", ())
    return [array for name in names for array in arrays(getattr(value, name, None), seen)]


def held(state: Any) -> int:
    """The bytes of a state."""
    return sum(array.nbytes for array in arrays(state))


def _resident_peak() -> int | None:
    """The peak of this process's resident memory in bytes, where the system tells."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)


def _reset_resident_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def measured(features: int, rows: int, outputs: int = 10) -> dict[str, float]:
    """In this process: the bytes of a state, and the peak above what was there while it learns another batch."""
    method = rm.RLS()
    X, Y = linear_rows(rows, features, outputs)
    state = method.update(method.init(features, outputs), X, Y)
    state = method.update(state, X[:300], Y[:300], donate=True)  # everything is loaded by now
    gc.collect()
    tracemalloc.start()
    size = held(state)
    before = tracemalloc.get_traced_memory()[
        0
    ]  # (what is older than tracing is not counted, nor is it freed meanwhile)
    reset = _reset_resident_peak()
    resident = _resident_peak()
    state = method.update(state, X, Y, donate=True)
    extra = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    peak = _resident_peak()
    result = {"state": float(size), "extra": float(extra)}
    if reset and resident is not None and peak is not None:
        result["resident"] = float(peak - resident)
    return result


def asked(features: int, rows: int, outputs: int = 10) -> dict[str, float]:
    """In this process: what is alive after asking for weights, and the peak of an update between two such questions."""
    method = rm.RLS()
    X, Y = linear_rows(rows, features, outputs)
    small = method.update(method.init(600, outputs), X[:, :600], Y)
    method.weights(method.update(small, X[:1, :600], Y[:1]))  # everything is loaded by now
    del small
    gc.collect()
    tracemalloc.start()
    state = method.update(method.init(features, outputs), X, Y, donate=True)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    method.weights(state)
    gc.collect()
    alive = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    state = method.update(state, X, Y, donate=True)
    update = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    method.predict(state, X[:5])
    predict = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"state": float(size), "alive": float(alive), "update": float(update), "predict": float(predict)}


def wide(features: int, rows: int, rank: int = 500) -> dict[str, float]:
    """In this process: all of its memory at its peak, after a low-rank classifier learned very wide features."""
    import time

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((rows, 64)), np.sort(np.arange(rows) % 10)
    model = rm.ContinualClassifier(rm.LowRankRLS(rank=rank), features=rm.RandomFeatures(features))
    begun = time.process_time()
    for i in range(0, rows, rank):
        model.partial_fit(X[i : i + rank], y[i : i + rank])
    model.predict(X[:10])
    seconds = time.process_time() - begun
    dropped = model.method.dropped(model.state_)  # type: ignore[union-attr]
    return {"peak": float(_resident_peak() or 0), "dropped": dropped, "seconds": seconds}


def steps(features: int, count: int) -> dict[str, float]:
    """In this process: all of its memory at its peak, after a filter over many steps that keeps the last covariance."""
    rng = np.random.default_rng(0)
    A = 0.95 * np.linalg.qr(rng.standard_normal((features, features)))[0]
    eye = np.eye(features)
    model = rm.kalman.LinearGaussian(
        A, 0.1 * eye, rng.standard_normal((2, features)), np.eye(2), np.zeros(features), eye
    )
    found = rm.kalman.filter(model, rng.standard_normal((count, 2)), keep="last")
    return {"peak": float(_resident_peak() or 0), "loglik": float(found.loglik)}


def _fresh_process(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.memory", *map(str, arguments)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"the measuring process failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def lowrank(effort: Effort) -> tuple[Row, ...]:
    """A square memory of this width would take 3.2 GB for the factor alone."""
    d, n = effort.features(20_000), effort.rows(2_000, 1000)
    found = _fresh_process("wide", d, n)
    return (
        Row(
            "memory-lowrank",
            f"ContinualClassifier(LowRankRLS(500)), {d} random features, {n} rows: the whole process at its peak",
            found["peak"],
            "2 GB",
            2e9,
            Goal("at most", 1),
            unit="bytes",
            accuracy={"share of the energy dropped": found["dropped"], "seconds": found["seconds"]},
        ),
    )


def kalman_last(effort: Effort) -> tuple[Row, ...]:
    """All covariances of this many steps would take 1 GB, the means of both kinds take 128 MB."""
    d, T = effort.features(8), effort.rows(1_000_000, 1000)
    return (
        Row(
            "memory-kalman-last",
            f'kalman.filter(keep="last"), d = {d}, m = 2, T = {T}: the whole process at its peak',
            _fresh_process("steps", d, T)["peak"],
            "300 MB",
            300e6,
            Goal("at most", 1),
            unit="bytes",
        ),
    )


def donate(effort: Effort) -> tuple[Row, ...]:
    """NumPy reports its allocations to tracemalloc, and LAPACK's work arrays here are NumPy's."""
    d, n = effort.features(2048), effort.rows(2_000, 400)
    found = _fresh_process(d, n)
    size, extra = found["state"], found["extra"]
    accuracy = {"resident memory grew by, in states": found["resident"] / size} if "resident" in found else {}
    return (
        Row(
            "memory-donate",
            f"RLS().update(donate=True), d = {d}, a batch of {n} rows: state and peak above it",
            size + extra,
            "the state itself",
            size,
            Goal("at most", 1.6),
            Limit("one copy of the state", size),
            unit="bytes",
            accuracy=accuracy,
        ),
    )


def weights(effort: Effort) -> tuple[Row, ...]:
    """Asking must not keep a second factor alive, nor make the next update take more than without."""
    d, n = effort.features(2048), effort.rows(2_000, 400)
    found = _fresh_process("asked", max(d, 601), n)
    size = found["state"]
    return (
        Row(
            "memory-weights",
            f"RLS().update(donate=True), d = {d}, {n} rows, weights asked before and after: peak",
            max(found["update"], found["predict"]),
            "the state itself",
            size,
            Goal("at most", 1.6),
            Limit("one copy of the state", size),
            unit="bytes",
            accuracy={
                f"states {words}": found[name] / size
                for name, words in (
                    ("alive", "alive after weights"),
                    ("update", "in update"),
                    ("predict", "in predict"),
                )
            },
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {
    "memory-donate": donate,
    "memory-weights": weights,
    "memory-lowrank": lowrank,
    "memory-kalman-last": kalman_last,
}
CALLS = {"wide": wide, "asked": asked, "steps": steps}

if __name__ == "__main__":
    if sys.argv[1] in CALLS:
        print(json.dumps(CALLS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
    else:
        print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))))
