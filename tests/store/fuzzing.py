"""Tables changed at random, given to learn, predict and evaluate of one model.

python fuzzing.py 300 0        counts of a sweep, within a memory limit (see test_fuzzed_tables.py)
"""

import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

import remanence as rm
from remanence.cli import main
from remanence.store.jobs.inspect import inspect_file

SPARE = 1 << 30  # bytes that a command may take beyond what the process has
FORMATS = ("csv", "npz", "parquet")


def rows(rng, n=30):
    X = rng.standard_normal((n, 2))
    return X, np.where(X[:, 0] > 0, "up", "down")


def as_csv(rng, path):
    """Text with odd cells, encodings, quotes, ends and lengths."""
    X, y = rows(rng)
    cells = [[repr(a), repr(b), c] for (a, b), c in zip(X.tolist(), y, strict=True)]
    table = [["x", "y", "way"], *cells]
    odd = ["", "nan", "inf", "-inf", "1e999", "1_0", "٣", "=1+1", '"', "'", "a" * 200_000, "\0", "\r", "\n", "[/b]"]
    odd += ["\x1b[2J", "9" * 5000, "0x10", "1,5", "1;5", " 7 ", "None", "true", "é", "🙂", "1e-320", "+-1", "1e5e5"]
    for _ in range(int(rng.integers(0, 4))):
        row = table[int(rng.integers(len(table)))]
        row[int(rng.integers(len(row)))] = odd[int(rng.integers(len(odd)))]
    how = int(rng.integers(8))
    if how == 0:
        table[int(rng.integers(len(table)))].append("7")
    elif how == 1:
        table[0][0] = table[0][1]
    elif how == 2:
        table = [row[::-1] for row in table]
    elif how == 3:
        table += table[1:] * 50
    elif how == 4:
        table = [[*row, *["1"] * 300] for row in table]
    text = ["\n", "\r\n", "\r", "\n\n"][int(rng.integers(4))].join(
        [",", ";", "\t", "|"][int(rng.integers(4)) if rng.random() < 0.3 else 0].join(row) for row in table
    )
    path.write_bytes(text.encode(["utf-8", "utf-8-sig", "utf-16", "latin-1"][int(rng.integers(4))], "replace"))


def as_npz(rng, path):
    """Arrays of odd kinds and shapes."""
    X, y = rows(rng)
    if rng.random() < 0.5:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kinds = ["<f4", "<f2", "<i1", "<u8", "|b1", "<c16", "<U4", "|S3", "<M8[D]", ">f8", "<f8"]
            X = (X * 9).astype("<i8").astype(kinds[int(rng.integers(len(kinds)))])
    labels = [y, y.astype("S"), np.arange(30), np.arange(30) / 2, np.full(30, np.nan), np.zeros((30, 2)), np.zeros(29)]
    labels += [np.arange(30, dtype="u8") + 2**63, np.array(["é\ud800"] * 30), np.array("x"), np.zeros(30, "M8[s]")]
    arrays = {"X": X, "way": labels[int(rng.integers(len(labels))) if rng.random() < 0.5 else 0]}
    if rng.random() < 0.3:
        arrays[["x", "X0", "../x", "Z", ""][int(rng.integers(5))]] = np.zeros(30)
    if rng.random() < 0.2:
        others = [X[:0], X[:, :0], X[None], X[0], np.asfortranarray(X), np.full(X.shape, np.inf)]
        arrays["X"] = others[int(rng.integers(6))]
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(path, **arrays)
    if rng.random() < 0.2:
        with zipfile.ZipFile(path, "a") as file:
            file.writestr("note.txt", "x")


def as_parquet(rng, path):
    """Columns of odd types, nested, null, doubled."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = rows(rng)
    n = len(X)
    kinds = [pa.array(X[:, 1]), pa.array([None] * n, pa.float64()), pa.nulls(n), pa.array([1, None] * (n // 2))]
    pairs = [[1.0, 2.0]] * (n - 1)
    kinds += [pa.array([[1.0]] * n), pa.array([None, *pairs]), pa.array([[1.0], *pairs])]
    kinds += [pa.array([{"a": 1}] * n), pa.array([[[1.0]]] * n), pa.array([[]] * n, pa.list_(pa.float32()))]
    kinds += [pa.array([b"\xff"] * n), pa.array(np.arange(n).astype("M8[ns]")), pa.array([True, None] * (n // 2))]
    kinds += [pa.array(y), pa.array(y).dictionary_encode(), pa.array(np.full(n, 2**64 - 1, np.uint64))]
    chosen = {"x": pa.array(X[:, 0]), "y": kinds[0], "way": pa.array(y)}
    for name in ("x", "y", "way"):
        if rng.random() < 0.4:
            chosen[name] = kinds[int(rng.integers(len(kinds)))]
    names = list(chosen)
    if rng.random() < 0.1:
        names[0] = names[1]
    table = pa.Table.from_arrays(list(chosen.values()), names=names)
    pq.write_table(table, path, row_group_size=[5, 30, 1000][int(rng.integers(3))])


def damaged(rng, content):
    """Flipped bytes, a truncation, something in the middle, or nothing."""
    content, how = bytearray(content), int(rng.integers(6))
    if how == 0:
        return bytes(content[: int(rng.integers(len(content) + 1))])
    if how == 1:
        for place in rng.integers(len(content), size=int(rng.integers(1, 20))):
            content[int(place)] ^= int(rng.integers(1, 256))
    elif how == 2:
        place = int(rng.integers(len(content)))
        content[place:place] = rng.bytes(int(rng.integers(1, 200)))
    return bytes(content)


def commands(path):
    out = str(path.with_name("out" + path.suffix))
    return (
        ["learn", "m", str(path)],
        ["learn", "m", str(path), "--drop-nan"],
        ["predict", "m", str(path), "-o", out, "--overwrite"],
        ["predict", "m", str(path), "-o", "out.csv", "--drop-nan", "--overwrite"],
        ["evaluate", "m", str(path), "--drop-nan"],
        ["learn", "new", str(path), "--label", "way", "--drop-nan"],
    )


def ran(command):
    """The exit code of a command, 2 where it is refused in words; anything else that is raised is raised."""
    os.environ["REMANENCE_DEBUG"] = "1"  # the command itself would put any exception into words
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main(command)
        except SystemExit as leaving:
            return int(leaving.code or 0)
        except (rm.InputError, rm.FileError, rm.NumericalError, rm.MissingDependency):
            return 2
    return 0


def sweep(tables, seed, limit=None):
    counts, failures = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        X, y = rows(np.random.default_rng(0))
        lines = [f"{a!r},{b!r},{c}\n" for (a, b), c in zip(X.tolist(), y, strict=True)]
        Path("first.csv").write_text("".join(["x,y,way\n", *lines]))
        np.savez("first.npz", X=X, way=y)
        models = {}
        for ending, first in zip(FORMATS, ("first.csv", "first.npz", "first.csv"), strict=True):
            assert ran(["learn", ending, first, "--label", "way"]) == 0  # everything is imported and compiled by then
            assert ran(["predict", ending, first, "-o", f"answers.{ending}"]) == 0
            models[ending] = Path(ending).read_bytes()
        if limit is not None:
            now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + limit, resource.RLIM_INFINITY))
        for i in range(tables):
            rng = np.random.default_rng((seed, i))
            ending = FORMATS[i % 3]
            path, model = Path(f"t.{ending}"), models[ending]
            {"csv": as_csv, "npz": as_npz, "parquet": as_parquet}[ending](rng, path)
            path.write_bytes(damaged(rng, path.read_bytes()))
            for command in commands(path):
                Path("m").write_bytes(model)
                Path("new").unlink(missing_ok=True)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        code = ran(command)
                    counts[f"{command[0]}: {code}"] += 1
                    if code and Path("m").read_bytes() != model:  # row groups before a bad one are kept, whole
                        assert command[0] == "learn" and ending == "parquet" and inspect_file("m").holds
                    rm.load("m")
                except BaseException:
                    counts["failed"] += 1
                    failures.append({"table": [seed, i], "command": command, "trace": traceback.format_exc()})
            left = [p.name for p in Path().iterdir() if p.name.endswith((".part", ".lock"))]
            if left:
                failures.append({"table": [seed, i], "trace": f"left behind: {left}"})
        os.chdir("/")
    return counts, failures


if __name__ == "__main__":
    counts, failures = sweep(int(sys.argv[1]), int(sys.argv[2]), SPARE)
    print(json.dumps({"counts": dict(counts), "failures": failures[:100]}))
