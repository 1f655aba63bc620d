"""Kill `remanence learn` at random moments, again and again, and look at what is left.

`python killing.py FOLDER KILLS SEED [growing]` prints JSON; with "growing" some files get longer between the kills.
Everything is imported once and each run is a fork, so that a kill costs milliseconds.
"""

import json
import os
import random
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np

from remanence.cli import main
from remanence.store import ModelFile, read
from remanence.store.model_file import to_buffers

for name in ("pyarrow.csv", "rich.progress", "remanence.estimators.classifier", "remanence.store.jobs.learn"):
    import_module(name)  # before the forks
FILES = 40
GROWING = 6  # files that get longer


def make_files(folder):
    """Forty tables of three formats, some with a class that is new, one with several row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    paths = []
    for k in range(FILES):
        X = rng.standard_normal((60, 5)) * 10.0 ** np.arange(5)
        y = np.array(["red", "green", "blue", "white"])[rng.integers(0, 2 + (k > 10) + (k > 20), 60)]
        names = [f"X{j}" for j in range(5)]
        if k % 4 == 1:
            paths.append(folder / f"{k:02}.npz")
            np.savez(paths[-1], X=X, kind=y)
        elif k % 4 == 2:
            paths.append(folder / f"{k:02}.parquet")
            columns = {name: X[:, j] for j, name in enumerate(names)} | {"kind": y}
            pq.write_table(pa.table(columns), paths[-1], row_group_size=25)
        else:
            paths.append(folder / f"{k:02}.csv")
            lines = [",".join([*names, "kind"])]
            lines += [",".join([*map(repr, row), label]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
            paths[-1].write_text("\n".join(lines) + "\n")
    return paths


def started(model, paths):
    """The command in a process of its own, silent."""
    child = os.fork()
    if child:
        return child
    os._exit(_command(model, paths))


def _command(model, paths):
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        main(["learn", str(model), *map(str, paths), "--label", "kind", "--json"])
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 99


def content(model):
    return b"".join(bytes(part) for part in to_buffers(ModelFile(model.learner)))


def run(folder, kills, seed):
    paths, rng = make_files(folder), random.Random(seed)
    whole = folder / "whole.safetensors"
    begun = time.monotonic()
    assert os.waitpid(started(whole, paths), 0)[1] == 0
    length = time.monotonic() - begun
    expected, model = read(whole), folder / "m.safetensors"
    found = {"kills": 0, "finished": 0, "seconds of a run": length, "pieces at a kill": [], "apart": 0.0, "left": []}
    while found["kills"] < kills or model.exists() or not found["finished"]:  # the last run goes on to its end
        child = started(model, paths)
        if found["kills"] < kills:
            time.sleep(rng.uniform(0, length))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            found["kills"] += 1
            if model.exists():
                now = read(model)  # raises where it is not whole
                assert now.ledger.rows() == now.learner.n_seen_, "ledger and memory are from different moments"
                found["pieces at a kill"].append(len(now.ledger))
            continue
        assert status == 0, f"the command left with {os.waitstatus_to_exitcode(status)}"
        now = read(model)
        found["finished"] += 1
        if content(now) != content(expected):
            off = np.abs(now.learner.coef_ - expected.learner.coef_).max() / np.abs(expected.learner.coef_).max()
            found["apart"] = max(found["apart"], float(off))
        assert [(e.fingerprint, e.rows) for e in now.ledger] == [(e.fingerprint, e.rows) for e in expected.ledger]
        found["left"] = sorted(p.name for p in folder.iterdir() if p not in (*paths, whole, model))
        model.unlink()
    return found


def announced(model, paths, pipe):
    """The command in a process of its own, which writes after every file, and says so before and after each write."""
    child = os.fork()
    if child:
        return child
    from remanence.store.jobs import session
    from remanence.store.model_file import Locked

    written = Locked.write

    def write(self, model):
        os.write(pipe, b"(")
        written(self, model)
        os.write(pipe, b")")

    Locked.write, session.WRITE_RATIO = write, 0.0
    os._exit(_command(model, paths))


def run_growing(folder, kills, seed):
    """Files that get longer between the kills, mostly up to somewhere inside a line.

    A kill comes shortly after the command has said that it begins or ends a write, so that it falls into the run.
    """
    rng, paths = random.Random(seed), [folder / f"{k}.csv" for k in range(GROWING)]
    rows = np.random.default_rng(seed).standard_normal((GROWING, 600 + 10 * kills, 5))
    contents = []
    for X in rows:
        lines = [",".join([*map(repr, row), "red" if row[0] > 0 else "blue"]) for row in X.tolist()]
        contents.append(("\n".join([",".join([*(f"x{j}" for j in range(5)), "kind"]), *lines]) + "\n").encode())
    whole, model = folder / "whole.safetensors", folder / "m.safetensors"
    found = {"kills": 0, "in mid-run": 0, "while writing": 0, "expected": rows.shape[0] * rows.shape[1]}
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert os.waitpid(started(whole, paths), 0)[1] == 0
    lengths = [len(c) // (kills + 2) + 200 for c in contents]
    for count in range(kills + 1):
        lengths = [len(c) for c in contents] if count == kills else lengths
        for path, content, length in zip(paths, contents, lengths, strict=True):
            path.write_bytes(content[:length])
        there = sum(content[:length].count(b"\n") - 1 for content, length in zip(contents, lengths, strict=True))
        before = read(model).ledger.rows() if model.exists() else 0
        reading, writing = os.pipe()
        child = announced(model, paths, writing)
        os.close(writing)
        said = b""
        if count < kills:
            event = rng.randrange(1, 2 * GROWING)
            while len(said) < event and (more := os.read(reading, 1)):
                said += more
            time.sleep(rng.choice([0.0, rng.uniform(0, 0.003)]))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        os.close(reading)
        if os.WIFSIGNALED(status):
            found["kills"] += 1
            now = read(model).ledger.rows() if model.exists() else 0
            if now:
                assert now == read(model).learner.n_seen_, "ledger and memory are from different moments"
            assert before <= now <= there, "rows were lost, or came from nowhere"
            found["in mid-run"] += before < now < there
            found["while writing"] += said.endswith(b"(")
        else:
            assert os.waitstatus_to_exitcode(status) == 0
        steps = [rng.randrange(2 * len(c) // (kills + 2)) for c in contents]
        lengths = [min(length + step, len(c)) for length, step, c in zip(lengths, steps, contents, strict=True)]
    ours, once = read(model).learner, read(whole).learner
    found["rows"] = int(ours.n_seen_)
    found["apart"] = float(np.abs(ours.coef_ - once.coef_).max() / np.abs(once.coef_).max())
    return found


if __name__ == "__main__":
    kind = run_growing if sys.argv[4:] == ["growing"] else run
    print(json.dumps(kind(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
