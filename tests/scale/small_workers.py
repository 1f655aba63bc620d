"""Learn a Parquet folder of 4 GB of rows with workers of 400 MB, and print what that took as JSON.

`python small_workers.py FOLDER`. The numbers are whole, so that the files are small; each has one row group of 512 MB
of rows, more than a worker may hold.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

import remanence as rm

FILES, ROWS, FEATURES, LIMIT = 8, 250_000, 256, "400MB"


def write(folder):
    for k in range(FILES):
        few = np.random.default_rng(k).integers(-32, 32, (4096, FEATURES)).astype(float)
        X = np.tile(few, (ROWS // len(few) + 1, 1))[:ROWS]
        columns = {f"x{j}": X[:, j] for j in range(FEATURES)} | {"kind": np.abs(X[:, :10]).argmax(axis=1)}
        pq.write_table(pa.table(columns), folder / f"{k}.parquet", row_group_size=ROWS)


def peak():
    """The most memory that this process has held, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def run(folder):
    write(folder)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=LIMIT, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        before, begun = client.run(os.getpid), time.perf_counter()
        model = rm.scale.fit(rm.ContinualClassifier(), folder, "kind")
        return {
            "bytes of rows": 8 * FILES * ROWS * FEATURES,
            "rows": model.n_seen_,
            "seconds": time.perf_counter() - begun,
            "peaks": list(client.run(peak).values()),
            "same processes": client.run(os.getpid) == before,
        }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
