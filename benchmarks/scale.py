"""Learning on a Dask cluster: two workers beside one, one beside a plain loop, and other distributed least squares.

python -m benchmarks.scale plan          the cost model beside measurements with 1 to 4 workers
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, Row
from benchmarks.timing import measure
from remanence.arrays import Array

PARTITIONS = 16
CLASSES = 10


def partition(k: int, rows: int, features: int) -> tuple[Array, Array]:
    """Rows and labels of the k-th partition, made where they are needed."""
    X = np.random.default_rng(k).standard_normal((rows, features))
    return X, np.abs(X[:, :CLASSES]).argmax(axis=1)


@contextmanager
def clients(counts: tuple[int, ...], processes: bool) -> Iterator[dict[int, Any]]:
    """A client of a cluster of so many workers of one thread, for each count."""
    distributed = peer("distributed", "scale")
    found: dict[int, Any] = {}
    made = []
    try:
        for count in counts:
            cluster = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=processes,
                dashboard_address="127.0.0.1:0",
                silence_logs=50,
            )
            found[count] = distributed.Client(cluster, set_as_default=False)
            made += [found[count], cluster]
        yield found
    finally:
        for one in made:
            one.close()


def fitted(client: Any, rows: int, features: int) -> Any:
    """A fit of all partitions on a cluster."""
    import remanence as rm

    dask = peer("dask", "scale")
    size = rows // PARTITIONS
    blocks = [dask.delayed(partition)(k, size, features) for k in range(PARTITIONS)]
    return rm.scale.fit(rm.ContinualClassifier(), blocks, client=client)


def looped(rows: int, features: int) -> Any:
    """The same partitions, one after the other in this process, on one thread."""
    import remanence as rm

    model = rm.ContinualClassifier()
    with rm.threads(1):
        for k in range(PARTITIONS):
            model.partial_fit(*partition(k, rows // PARTITIONS, features))
    return model


def workers(effort: Effort) -> tuple[Row, ...]:
    """Seconds on the clock: workers are other processes. Needs two free cores."""
    rows, features = effort.rows(400_000, 1600), effort.features(256)
    processes = rows > 10_000
    with clients((1, 2), processes) as found:
        calls: dict[str, Any] = {
            "two": lambda: fitted(found[2], rows, features),
            "one": lambda: fitted(found[1], rows, features),
            "loop": lambda: looped(rows, features),
        }
        measured = measure(calls, effort, on_the_wall=True)
    models = measured.results
    same = float(np.array_equal(models["one"].coef_, models["two"].coef_))
    off = float(np.abs(models["two"].coef_ - models["loop"].coef_).max() / np.abs(models["loop"].coef_).max())
    what, load = f"rm.scale.fit, {rows} × {features} in {PARTITIONS} generated partitions", os.getloadavg()[0]
    note = f"on the clock, with the cores shared by whatever else runs; load {load:.1f}"
    return (
        Row(
            "scale-workers-two",
            f"{what}, two worker processes",
            measured.best("two", rows),
            "one worker process",
            measured.best("one", rows),
            Goal("at least", 1.6),
            accuracy={"same bits": same},
            note=note,
            rounds=measured.pairs("two", "one", rows, rows),
        ),
        Row(
            "scale-workers-one",
            f"{what}, one worker process",
            measured.best("one", rows),
            "a loop of partial_fit",
            measured.best("loop", rows),
            Goal("at most", 1.2),
            accuracy={"apart": off},
            note=note,
            rounds=measured.pairs("one", "loop", rows, rows),
        ),
    )


def scaled_table(folder: Path, rows: int, features: int) -> tuple[Array, Array, Array]:
    """A Parquet folder of columns of scales 1 to 1e-6 and a target that all of them share; X, y and the scales."""
    pa, pq = peer("pyarrow"), peer("pyarrow.parquet")
    rng, scales = np.random.default_rng(0), np.logspace(0, -6, features)
    X = rng.standard_normal((rows, features)) * scales
    y = (X / scales).sum(axis=1) + 0.1 * rng.standard_normal(rows)
    for k, part in enumerate(np.array_split(np.arange(rows), PARTITIONS)):
        columns = {f"x{j}": X[part, j] for j in range(features)} | {"y": y[part]}
        pq.write_table(pa.table(columns), folder / f"{k:02}.parquet")
    return X, y, scales


def oracle(X: Array, y: Array) -> Array:
    """Coefficients by a QR decomposition of the centred rows."""
    from scipy.linalg import qr, solve_triangular

    Q, R = qr(X - X.mean(axis=0), mode="economic")
    return np.asarray(solve_triangular(R, Q.T @ (y - y.mean())))


def by_spark(folder: Path, features: int) -> Array:
    """Coefficients of Spark's normal equations, without a penalty."""
    sql, feature, regression = peer("pyspark.sql"), peer("pyspark.ml.feature"), peer("pyspark.ml.regression")
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.read.parquet(str(folder))
    assembler = feature.VectorAssembler(inputCols=[f"x{j}" for j in range(features)], outputCol="x")
    model = regression.LinearRegression(featuresCol="x", labelCol="y", solver="normal", regParam=0.0)
    return np.asarray(model.fit(assembler.transform(frame)).coefficients.toArray())


def by_dask_ml(folder: Path, features: int) -> Array:
    """Coefficients of dask-ml, with its default solver and hardly any penalty."""
    frames, linear = peer("dask.dataframe", "scale"), peer("dask_ml.linear_model")
    names = [*(f"x{j}" for j in range(features)), "y"]
    rows = frames.read_parquet(folder)[names].to_dask_array()
    rows.compute_chunk_sizes()
    X, y = rows[:, :features], rows[:, features]
    return np.asarray(linear.LinearRegression(C=1e12).fit(X, y).coef_).ravel()


def by_us(folder: Path, features: int) -> Array:
    import remanence as rm

    model = rm.scale.fit(rm.ContinualRegressor(rm.RLS(ridge=1e-24)), folder, "y")
    return np.asarray(model.coef_).ravel()


def peers(effort: Effort) -> tuple[Row, ...]:
    """The same Parquet folder; errors are relative to the QR solution, the largest of any coefficient."""
    rows, features = effort.rows(100_000, 1600), min(effort.features(256), 64)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X, y, _ = scaled_table(folder, rows, features)
        truth = oracle(X, y)
        sides = {"ours": by_us, "spark": by_spark, "dask_ml": by_dask_ml}
        seconds, errors = dict[str, float](), dict[str, float]()
        for side, call in sides.items():
            begun = time.perf_counter()
            if side == "spark":  # (the first call starts a Java machine)
                call(folder, features)
                begun = time.perf_counter()
            found = call(folder, features)
            seconds[side] = (time.perf_counter() - begun) / rows
            errors[side] = float(np.abs(found / truth - 1).max())
    what = f"rm.scale.fit, Parquet folder of {rows} × {features}, column scales 1 to 1e-6"
    titles = {"spark": 'Spark LinearRegression(solver="normal")', "dask_ml": "dask_ml LinearRegression"}
    return tuple(
        Row(
            f"scale-peers-{side.replace('_', '-')}",
            what,
            seconds["ours"],
            title,
            seconds[side],
            Goal("at least"),
            accuracy={"error": errors["ours"], "their error": errors[side]},
            note="on the clock, once; largest relative error of a coefficient against a QR decomposition",
        )
        for side, title in titles.items()
    )


def planned(rows: int, features: int) -> Iterator[dict[str, float]]:
    """Seconds that `rm.scale.plan` says, and those measured, with 1 to 4 workers, which share the cores there are."""
    import remanence as rm
    from remanence.scale.cost import measured_flops

    begun = time.perf_counter()
    for k in range(PARTITIONS):
        partition(k, rows // PARTITIONS, features)
    read, cores = (time.perf_counter() - begun) / rows, os.cpu_count() or 1
    with rm.threads(1):
        flops = measured_flops(features, CLASSES)
    for count in (1, 2, 3, 4):
        with clients((count,), processes=True) as here:
            fitted(here[count], rows, features)
            seconds = []
            for _ in range(2):
                begun = time.perf_counter()
                fitted(here[count], rows, features)
                seconds.append(time.perf_counter() - begun)
        busy = min(count, cores)
        plan = rm.scale.plan(rows, features, CLASSES, busy, partitions=PARTITIONS, read=read, flops=flops)
        yield {"workers": count, "plan": plan.seconds, "measured": min(seconds), "load": os.getloadavg()[0]}


BENCHMARKS: dict[str, Benchmark] = {"scale-workers": workers, "scale-peers": peers}

if __name__ == "__main__":
    for line in planned(*map(int, sys.argv[2:] or (400_000, 256))):
        print(json.dumps(line), flush=True)
