"""Kill `remanence learn --cluster` at random moments, again and again, and look at what is left.

`python driver_kills.py FOLDER KILLS SEED` prints JSON. The cluster is a process of its own and lives on; everything is
imported once and each run of the command is a fork, so that a kill costs little.
"""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

from remanence.store import read

for name in ("distributed", "pyarrow.csv", "pyarrow.parquet", "remanence.scale.jobs.learn", "rich.progress"):
    import_module(name)  # before the forks
spec = importlib.util.spec_from_file_location("killing", Path(__file__).parents[1] / "cli" / "killing.py")
killing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(killing)

CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "protocol": "tcp://", "silence_logs": 50}
    with LocalCluster(dashboard_address="127.0.0.1:0", **settings) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def started(model, paths, address):
    """The command in a process of its own, silent."""
    child = os.fork()
    if child:
        return child
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    arguments = ["--label", "kind", "--json", "--save-every", "1e-6", "--cluster", address]
    try:
        killing.main(["learn", str(model), *map(str, paths), *arguments])
    except SystemExit as leaving:
        os._exit(int(leaving.code or 0))
    os._exit(99)


def run(folder, kills, seed, address):
    paths, rng = killing.make_files(folder), random.Random(seed)
    whole, model = folder / "whole.safetensors", folder / "m.safetensors"
    for _ in range(2):  # (the first run loads what workers need)
        whole.unlink(missing_ok=True)
        begun = time.monotonic()
        assert os.waitpid(started(whole, paths, address), 0)[1] == 0
        length = time.monotonic() - begun
    expected = read(whole)
    found = {"kills": 0, "finished": 0, "seconds of a run": length, "pieces at a kill": [], "other bits": 0, "left": []}
    while found["kills"] < kills or model.exists() or not found["finished"]:  # the last run goes on to its end
        child = started(model, paths, address)
        if found["kills"] < kills:
            time.sleep(rng.uniform(0.2, 0.8) * length)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            found["kills"] += 1
            print(found["kills"], file=sys.stderr, flush=True)
            if model.exists():
                now = read(model)  # raises where it is not whole
                assert now.ledger.rows() == now.learner.n_seen_, "ledger and memory are from different moments"
                found["pieces at a kill"].append(len(now.ledger))
            continue
        assert status == 0, f"the command left with {os.waitstatus_to_exitcode(status)}"
        now = read(model)
        found["finished"] += 1
        found["other bits"] += not np.array_equal(now.learner.coef_, expected.learner.coef_)
        assert [(e.fingerprint, e.rows) for e in now.ledger] == [(e.fingerprint, e.rows) for e in expected.ledger]
        found["left"] = sorted(p.name for p in folder.iterdir() if p not in (*paths, whole, model))
        model.unlink()
    return found


if __name__ == "__main__":
    cluster = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = cluster.stdout.readline().strip()
        print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), address)))
    finally:
        cluster.stdin.close()
        cluster.wait(60)
