"""Forged files with a correct checksum: a clear error, or a learner that works, in memory bounded by the file."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import remanence as rm
from remanence.cli import main
from remanence.store.format.safetensors_file import packed, parse
from remanence.store.jobs.inspect import inspect_file
from remanence.store.model_file import from_bytes
from remanence.store.records.registry import RECORDS

from . import every_learner, forging
from .conftest import content_of

HERE = Path(__file__).parent


def run_sweep(changes, seed):
    """A sweep in a process of its own, whose memory is limited; its counts."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "forging.py", str(changes), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert not found["failures"], "\n".join(f["trace"] for f in found["failures"][:3])
    return found["counts"]


def test_a_thousand_forged_files_are_refused_or_work():
    pytest.importorskip("torch")
    counts = run_sweep(1000, 7)
    assert counts["refused"] > 500 and counts["used"] > 50 and sum(counts.values()) == 1000


@pytest.mark.sweep
def test_fifty_thousand_forged_files_are_refused_or_work():
    counts = run_sweep(50_000, 11)
    print(counts)
    assert sum(counts.values()) == 50_000


def test_the_sweep_knows_every_learner_of_the_registry():
    pytest.importorskip("torch")
    met = set()
    for make in {**every_learner.PLAIN, **every_learner.DEEP}.values():
        words, _ = parse(content_of(make()))
        met |= {name for name in RECORDS if f'"class":"{name}"' in words["learner"]}
    assert met == set(RECORDS)


# Memory


def rewritten(content, change):
    """The file after a change of tree and arrays."""
    words, arrays = parse(content)
    del words["sha256"]
    tree = json.loads(words["learner"])
    change(tree, arrays)
    words["learner"] = json.dumps(tree)
    return b"".join(map(bytes, packed(words, {n: np.ascontiguousarray(a).reshape(a.shape) for n, a in arrays.items()})))


def rls_of(d):
    """A pair of RLS over d features whose arrays are one number each."""

    def change(tree, arrays):
        shapes = {"state.data.triangle": [d * (d + 1) // 2], "state.data.target": [d, 1], "state.start": [d, 1]}
        state = tree["parts"]["state"]["parts"]
        for name, shape in shapes.items():
            arrays[name] = np.zeros([1] * len(shape))
        state["data"]["parts"]["triangle"]["shape"] = shapes["state.data.triangle"]
        state["data"]["parts"]["target"] = {"array": "state.data.target", "shape": shapes["state.data.target"]}
        state["start"]["shape"] = shapes["state.start"]
        arrays["state.waiting.X"] = np.zeros((0, d))

    return change


def fresh_pair():
    method = rm.RLS()
    return method, method.init(2, 1)


BOMBS = {
    "broadcast": rls_of(30_000),
    "broadcast, far": rls_of(3_000_000),
    "empty": lambda tree, arrays: arrays.update({"state.waiting.X": np.zeros((0, 10**12))}),
    "room": lambda tree, arrays: tree["parts"]["state"]["parts"]["waiting"]["parts"].update(room=4096),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_never_asks_for_much_memory(name):
    content = rewritten(content_of(fresh_pair()), BOMBS[name])
    assert len(content) < 4000
    tracemalloc.start()
    try:
        with pytest.raises(rm.FileError):
            from_bytes(content)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_broadcasts_that_are_honest_come_back_as_broadcasts():
    model = every_learner.gaussian()
    found = rm.kalman.filter(model, np.random.default_rng(0).standard_normal((500, 6, 1)))
    content = content_of(found)
    loaded = from_bytes(content).learner
    assert loaded.cov.strides[0] == 0 and (loaded.cov == found.cov).all() and content_of(loaded) == content


def test_a_broadcast_larger_than_a_reader_accepts_is_written_in_full():
    mean, cov = (np.broadcast_to(np.ones(s), (5000, *s)) for s in ((3, 2), (3, 2, 2)))
    forecast = rm.kalman.results.Forecast(mean, cov)
    loaded = from_bytes(content_of(forecast)).learner
    assert loaded.cov.shape == (5000, 3, 2, 2) and (loaded.cov == 1).all() and (loaded.mean == 1).all()


def test_memory_that_runs_out_is_said(monkeypatch, small):
    def out_of_memory(*_):
        raise MemoryError

    monkeypatch.setattr("remanence.store.format.encode.restored", out_of_memory)
    with pytest.raises(rm.FileError, match="more than fits into the memory"):
        from_bytes(content_of(small))


# What stands beside the learner


@pytest.fixture
def taught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMANENCE_DEBUG", "1")  # the command itself would put any exception into words
    rng = np.random.default_rng(0)
    for k, name in enumerate(("a.csv", "b.csv", "c.csv")):
        rows = [f"{a!r},{b!r},{'up' if a > 0 else 'down'}" for a, b in rng.standard_normal((9 + k, 2)).tolist()]
        Path(name).write_text("\n".join(["x,y,way", *rows]) + "\n")
    for model, data in (("m", ("a.csv", "b.csv")), ("other", ("c.csv",))):
        with pytest.raises(SystemExit):
            main(["learn", model, *data, "--label", "way"])
    return Path("m").read_bytes()


COMMANDS = [
    ("inspect", "m"),
    ("inspect", "m", "--json"),
    ("predict", "m", "c.csv", "-o", "out.csv"),
    ("evaluate", "m", "c.csv"),
    ("learn", "m", "c.csv"),
    ("unlearn", "m", "a.csv"),
    ("merge", "m", "other", "-o", "merged"),
]


def commands_end_in_words(content, capsys):
    """Every command on this file; how many were refused."""
    refused = 0
    for command in COMMANDS:
        Path("m").write_bytes(content)
        for made in ("out.csv", "merged"):
            Path(made).unlink(missing_ok=True)
        with pytest.raises((SystemExit, *forging.WORDED)) as leaving:  # (anything else is no refusal)
            main(list(command))
        capsys.readouterr()
        refused += not isinstance(leaving.value, SystemExit)
        assert getattr(leaving.value, "code", 0) in (0, None, 1), command
    return refused


def forged_words(content, seed):
    rng = np.random.default_rng(seed)
    words, arrays = parse(content)
    words = {name: word for name, word in words.items() if name != "sha256"}
    forging.change_words(rng, words)
    return b"".join(map(bytes, packed(words, arrays)))


def test_forged_metadata_raise_a_clear_error_in_every_command(taught, capsys):
    assert commands_end_in_words(taught, capsys) == 0
    refused = sum(commands_end_in_words(forged_words(taught, seed), capsys) > 0 for seed in range(40))
    assert refused > 15


@pytest.mark.sweep
def test_a_thousand_forged_metadata_raise_a_clear_error_in_every_command(taught, capsys):
    for seed in range(1000, 2000):
        commands_end_in_words(forged_words(taught, seed), capsys)


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("notes", {"columns": ["x"]}),
        ("notes", {"columns": ["x", "x"]}),
        ("notes", {"columns": "xy"}),
        ("notes", {"columns": None}),
        ("notes", {"label": None}),
        ("notes", {"label": 3}),
        ("notes", {"label kind": "integers"}),
        ("notes", {"label kind": []}),
        ("notes", {"targets": ["x"]}),
        ("notes", {"out": {"a": "b"}}),
        ("notes", {"out": []}),
        ("about", {"rows": "many"}),
        ("about", {"settings": []}),
        ("about", {"labels": 3}),
        ("about", {"feature names": [1]}),
    ],
)
def test_notes_that_are_not_the_learners_are_refused(word, change, taught, capsys):
    words, arrays = parse(taught)
    del words["sha256"]
    words[word] = json.dumps({**json.loads(words[word]), **change})
    assert commands_end_in_words(b"".join(map(bytes, packed(words, arrays))), capsys) >= 5


def test_files_of_every_kind_can_be_loaded_and_inspected(tmp_path):
    for k, make in enumerate(every_learner.PLAIN.values()):
        rm.save(make(), tmp_path / str(k))
        assert inspect_file(tmp_path / str(k)).holds
        forging.use(rm.load(tmp_path / str(k)))
