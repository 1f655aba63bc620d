"""Files that are damaged, huge or hostile are refused in bounded memory, and the model is as it was."""

import bz2
import gzip
import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

RUN = """
import json, resource, sys
import remanence as rm
import remanence.estimators
import pyarrow.csv, pyarrow.json, pyarrow.parquet
from remanence.store.jobs.learn import learn_session
from remanence.store.jobs.learn_options import LearnOptions

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = []
for path in sys.argv[2:]:
    content = open(sys.argv[1], "rb").read()
    try:
        with learn_session(sys.argv[1], LearnOptions("kind")) as job:
            job.learn(path)
        found.append([path, "learned"])
    except (rm.InputError, rm.FileError) as refusal:
        assert open(sys.argv[1], "rb").read() == content
        found.append([path, str(refusal)])
print(json.dumps([found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]))
"""


def sheet(rows, names="ab"):
    lines = "".join(",".join(f"{v!r}" for v in row) + f",{'xy'[i % 2]}\n" for i, row in enumerate(rows.tolist()))
    return (",".join([*names, "kind"]) + "\n" + lines).encode()


def write_line(path, size, begin=b"a,b,kind\n1,", end=b"2,x\n"):
    """A file of one very long line, which takes no space on the disk."""
    with path.open("wb") as file:
        file.write(begin)
        file.seek(size)
        file.write(end)


def write_all(folder):
    X = np.random.default_rng(0).standard_normal((20_000, 2))
    content, y = sheet(X), np.array(["x", "y"] * 10_000)
    files = {
        "truncated.csv.gz": gzip.compress(content)[:-500],
        "truncated.csv.bz2": bz2.compress(content)[:-500],
        "no gzip.csv.gz": content,
        "ragged.csv": content + b"1,2\n",
        "cut.csv": content[: len(content) // 2].rsplit(b"\n", 1)[0] + b"\n1.5,2_0,x\n",
        "quote.csv": content + b'1,2,"x\n',
        "latin.csv": content + "1,2,\xe4\n".encode("latin-1"),
        "names.csv": b",".join(b"c%d" % j for j in range(1_000_000)) + b"\n1\n",
        "cells.jsonl": b'{"a": 1, "b": 2, "kind": "x"}\n{"a": 1, "b": \n',
    }
    sink = io.BytesIO()
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "kind": y})
    import pyarrow.parquet as pq

    pq.write_table(table, sink)
    files["half.parquet"] = sink.getvalue()[: len(sink.getvalue()) // 2]
    with pa.OSFile(str(folder / "whole.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    files["half.arrow"] = (folder / "whole.arrow").read_bytes()[:200_000]
    objects = io.BytesIO()
    np.savez(objects, X=X[:5].astype(object), kind=y[:5])
    files["objects.npz"] = objects.getvalue()
    for name, part in files.items():
        (folder / name).write_bytes(part)
    write_line(folder / "line.csv", 400_000_000)
    with gzip.open(folder / "bomb.csv.gz", "wb", compresslevel=9) as file:
        file.write(b"a,b,kind\n1,")
        for _ in range(300):
            file.write(b"1" * 1_000_000)
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("X.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (50_000, 1000)})
        for _ in range(400):
            member.write(bytes(1_000_000))
    return [*files, "line.csv", "bomb.csv.gz", "bomb.npz"]


def test_bad_files_are_refused_in_bounded_memory(tmp_path):
    assert_refused(tmp_path, write_all(tmp_path))


@pytest.mark.sweep
def test_lines_of_a_gigabyte_are_refused_in_bounded_memory(tmp_path):
    write_line(tmp_path / "line.csv", 1_000_000_000)
    write_line(tmp_path / "header.csv", 1_000_000_000, b"a,", b"b\n1,2\n")
    write_line(tmp_path / "quoted.csv", 1_000_000_000, b'a,b,kind\n1,"', b'",x\n')
    write_line(tmp_path / "line.jsonl", 1_000_000_000, b'{"a": 1, "b": 2, "kind": "x"}\n{"a": "', b'"}\n')
    with gzip.open(tmp_path / "line.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"a,b,kind\n1,")
        for _ in range(1000):
            file.write(b"1" * 1_000_000)
        file.write(b",x\n")
    assert_refused(tmp_path, ["line.csv", "header.csv", "quoted.csv", "line.jsonl", "line.csv.gz"])


def assert_refused(tmp_path, names):
    """No file is learned, and the process stays small."""
    from remanence.cli import main

    (tmp_path / "good.csv").write_bytes(sheet(np.random.default_rng(1).standard_normal((50, 2))))
    with pytest.raises(SystemExit):
        main(["learn", str(tmp_path / "m"), str(tmp_path / "good.csv"), "--label", "kind"])
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, "m", *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    found, kilobytes = json.loads(run.stdout)
    assert [name for name, outcome in found if outcome == "learned"] == []
    assert kilobytes < 400_000, f"{kilobytes} kB more than before"
