"""Learning from files: Parquet larger than memory may be, and CSV beside Arrow's own reader.

python -m benchmarks.files 1000000 500          4 GB of rows
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import peer
from benchmarks.rows import Benchmark, Effort, Goal, Limit, Row
from benchmarks.timing import measure
from remanence.arrays import Array

GROUP = 8192  # rows in a row group, which is learned whole or not at all
CLASSES = 10


def block(k: int, rows: int, features: int) -> tuple[Array, Array]:
    """RowBlock and labels of the k-th row group."""
    rng = np.random.default_rng(k)
    X = rng.standard_normal((rows, features))
    return X, np.abs(X[:, :CLASSES]).argmax(axis=1)


def write_table(path: Path, rows: int, features: int) -> int:
    """A Parquet file of float64 columns and a label; its bytes."""
    pa, pq = peer("pyarrow", "data"), peer("pyarrow.parquet", "data")
    writer = None
    for k, first in enumerate(range(0, rows, GROUP)):
        X, y = block(k, min(GROUP, rows - first), features)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(features)}, "label": y})
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema, compression="NONE", use_dictionary=False)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return path.stat().st_size


def learned(path: str, model: str) -> dict[str, float]:
    """In this process: the command itself, with its seconds and the peak of the memory of the whole process."""
    import resource

    import remanence.estimators  # noqa: F401  # (loading the libraries is not reading rows)
    from remanence.store.jobs.learn import learn_session
    from remanence.store.jobs.learn_options import LearnOptions

    begun, used = time.perf_counter(), time.process_time()
    with learn_session(model, LearnOptions(label="label")) as job:
        job.learn(path)
    report = job.report
    return {
        "rows": float(report.total("learned")),
        "seconds": time.process_time() - used,
        "on the clock": time.perf_counter() - begun,
        "peak": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def fold_rows(effort: Effort) -> tuple[Row, ...]:
    """What `remanence learn` does with a Parquet file, beside learning the same rows in memory."""
    from remanence.estimators import ContinualClassifier

    features, rows = effort.features(500), effort.rows(100_000, 1000)
    blocks = [block(k, min(GROUP, rows - first), features) for k, first in enumerate(range(0, rows, GROUP))]
    X, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "rows.parquet", Path(folder) / "model.safetensors"
        size = write_table(path, rows, features)

        def ours() -> None:
            model.unlink(missing_ok=True)
            assert learned(str(path), str(model))["rows"] == rows

        found = measure({"learn": ours, "fold": lambda: ContinualClassifier().partial_fit(X, y)}, effort)
    return (
        Row(
            "files-parquet-fold",
            f"remanence learn, Parquet of {rows} rows × {features} columns ({size / 1e9:.2g} GB)",
            found.best("learn", rows),
            "learning the same rows in memory",
            found.best("fold", rows),
            Goal("at most", 1.4),
            rounds=found.pairs("learn", "fold", rows, rows),
            note="what reading, hashing and writing add",
        ),
    )


def csv_rows(effort: Effort) -> tuple[Row, ...]:
    """What `remanence learn` does with a CSV file, beside Arrow's reader and learning the same rows in memory."""
    from remanence.estimators import ContinualClassifier

    pa, csv = peer("pyarrow", "data"), peer("pyarrow.csv", "data")
    rows, features = effort.rows(60_000, 2000), 50
    X, y = block(0, rows, features)
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "rows.csv", Path(folder) / "model.safetensors"
        csv.write_csv(pa.table({**{f"x{j}": X[:, j] for j in range(features)}, "label": y}), path)

        def ours() -> None:
            model.unlink(missing_ok=True)
            assert learned(str(path), str(model))["rows"] == rows

        def theirs() -> None:
            csv.read_csv(path)
            ContinualClassifier().partial_fit(X, y)

        found = measure({"learn": ours, "read and fold": theirs}, effort)
        size = path.stat().st_size
    return (
        Row(
            "files-csv",
            f"remanence learn, CSV of {rows} rows × {features} columns ({size / 1e6:.3g} MB)",
            found.best("learn", rows),
            "pyarrow.csv.read_csv, and learning the same rows in memory",
            found.best("read and fold", rows),
            Goal("at most", 1 / 0.7),
            note="parsing, hashing every row, learning, and writing the model file with its ledger",
        ),
    )


def _fresh_process(path: Path, model: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.files", "learn", str(path), str(model)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise RuntimeError(f"the measuring process failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def bare(rows: int, features: int, effort: Effort) -> float:
    """Seconds a row of XᵀX alone, with the rows in memory already: less than this nobody can do who looks at all."""
    from scipy.linalg.blas import dsyrk

    X = block(0, min(rows, GROUP), features)[0]
    return measure({"syrk": lambda: dsyrk(1.0, X.T)}, effort).best("syrk", len(X))


def measured(rows: int, features: int, effort: Effort) -> dict[str, Any]:
    """A file of that many rows learned, and one of a tenth of them, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        part, whole = Path(folder) / "part.parquet", Path(folder) / "whole.parquet"
        write_table(part, max(rows // 10, 1), features)
        before = _fresh_process(part, Path(folder) / "part.safetensors")
        size = write_table(whole, rows, features)
        found = _fresh_process(whole, Path(folder) / "whole.safetensors")
        state = (Path(folder) / "whole.safetensors").stat().st_size
    return {
        **found,
        "bytes": size,
        "model": state,
        "peak of a tenth": before["peak"],
        "bare": bare(rows, features, effort),
    }


def parquet(effort: Effort) -> tuple[Row, ...]:
    """Both numbers come from one run, in a fresh process, of what `remanence learn` does.

    A tenth of the rows must be enough to fill the queue of rows that are read ahead of learning.
    """
    features, rows = effort.features(500), effort.rows(400_000, 1000)
    return as_rows(measured(rows, features, effort), features)


def as_rows(found: dict[str, Any], features: int) -> tuple[Row, ...]:
    rows = int(found["rows"])
    what = f"remanence learn, Parquet of {rows} rows × {features} columns ({found['bytes'] / 1e9:.2g} GB)"
    return (
        Row(
            "files-parquet",
            what,
            found["seconds"] / rows,
            "syrk on the same rows in memory",
            found["bare"],
            Goal("at most"),
            Limit("syrk alone", found["bare"]),
            accuracy={"rows a second": rows / found["on the clock"]},
            note="reading, hashing and folding, ten classes; a root is not squared and costs more than XᵀX",
        ),
        Row(
            "files-parquet-memory",
            f"{what}: the whole process at its peak",
            found["peak"],
            "the same on a tenth of the rows",
            found["peak of a tenth"],
            Goal("at most", 1.25),
            unit="bytes",
            accuracy={"gigabytes": found["peak"] / 1e9, "of the file": found["peak"] / found["bytes"]},
        ),
    )


BENCHMARKS: dict[str, Benchmark] = {"files-parquet": parquet, "files-parquet-fold": fold_rows, "files-csv": csv_rows}

if __name__ == "__main__":
    if sys.argv[1] == "learn":
        print(json.dumps(learned(sys.argv[2], sys.argv[3])))
    else:
        from benchmarks.rows import QUICK

        print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]), QUICK), indent=1))
