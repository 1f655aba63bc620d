"""Systems and file systems that lack something: said in words, with nothing left behind; and what is no plain file."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import remanence as rm
from remanence.files import remove_abandoned, write_atomically
from remanence.store.jobs.predict import predict_table
from remanence.tables import open_table

from .job_helpers import learn_tables
from .test_learn import KIND, sheet


@pytest.fixture
def model(tmp_path, small):
    rm.save(small, tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks_is_named_and_no_lock_is_left(model, small, monkeypatch, code):
    import fcntl

    def no_locks(handle, how):
        raise OSError(code, os.strerror(code))

    before = model.read_bytes()
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(rm.FileError, match=r"m: its file system has no locks .* local disk"):
        rm.save(small, model)
    assert model.read_bytes() == before and [p.name for p in model.parent.iterdir()] == ["m"]
    assert rm.load(model).n_seen_ == small.n_seen_


def test_a_lock_that_fails_otherwise_is_named_too(model, small, monkeypatch):
    import fcntl

    def broken(handle, how):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(rm.FileError, match="lock cannot be taken: Input/output error"):
        rm.save(small, model)
    assert [p.name for p in model.parent.iterdir()] == ["m"]


def test_a_system_without_posix_locks_reads_and_says_that_it_cannot_write(model, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(os, "fchmod")
    with pytest.raises(rm.FileError, match="no POSIX file locks; write model files on Linux"):
        rm.save(small, model)
    assert [p.name for p in model.parent.iterdir()] == ["m"]
    assert rm.load(model).n_seen_ == small.n_seen_
    write_atomically(model, b"other files need no lock")


def test_importing_needs_no_posix():
    code = "import sys; sys.modules['fcntl'] = None; import remanence.store, remanence.cli, remanence.files"
    subprocess.run([sys.executable, "-c", code], check=True)


def failing(name, code, monkeypatch, folder):
    """fsync of a folder, or fchmod, fails with this code."""
    real = getattr(os, name)

    def fails(handle, *rest):
        if name == "fchmod" or os.path.isdir(f"/proc/self/fd/{handle}") == folder:  # noqa: PTH112
            raise OSError(code, os.strerror(code))
        return real(handle, *rest)

    monkeypatch.setattr(os, name, fails)


def test_a_folder_that_cannot_be_synced_is_no_failure_to_write(model, small, monkeypatch, recwarn):
    failing("fsync", errno.EINVAL, monkeypatch, folder=True)
    write_atomically(model, b"new")
    assert model.read_bytes() == b"new" and not recwarn.list


def test_a_folder_that_fails_to_sync_is_a_warning_that_says_the_file_was_written(model, monkeypatch):
    failing("fsync", errno.EIO, monkeypatch, folder=True)
    with pytest.warns(UserWarning, match="m was written, but"):
        write_atomically(model, b"new")
    assert model.read_bytes() == b"new"


def test_content_that_fails_to_sync_is_a_failure_and_the_old_file_stays(model, monkeypatch):
    before = model.read_bytes()
    failing("fsync", errno.EIO, monkeypatch, folder=False)
    with pytest.raises(rm.FileError, match="cannot write"):
        write_atomically(model, b"new")
    assert model.read_bytes() == before and [p.name for p in model.parent.iterdir()] == ["m"]


def test_permissions_that_cannot_be_set_are_no_failure_to_write(model, monkeypatch):
    failing("fchmod", errno.EPERM, monkeypatch, folder=False)
    write_atomically(model, b"new")
    assert model.read_bytes() == b"new"


# What is no plain file


def test_a_pipe_as_model_is_refused_at_once_and_not_waited_for(tmp_path, small):
    os.mkfifo(tmp_path / "pipe")
    for call in (lambda: rm.load(tmp_path / "pipe"), lambda: rm.save(small, tmp_path / "pipe")):
        with pytest.raises(rm.FileError, match="a named pipe"):
            call()
    with pytest.raises(rm.FileError, match="a device"):
        rm.load("/dev/zero")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_data_that_are_no_plain_file_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path, words in ((tmp_path / "pipe.csv", "a named pipe"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        with pytest.raises(rm.FileError, match=f"it is {words}"):
            open_table(path)
    with pytest.raises(rm.FileError, match="there is no such file"):
        open_table(tmp_path / "absent.csv")


def test_a_read_only_model_is_not_replaced(model, small):
    before = model.read_bytes()
    model.chmod(0o444)
    with pytest.raises(rm.FileError, match="read-only"):
        rm.save(small, model)
    assert model.read_bytes() == before and [p.name for p in model.parent.iterdir()] == ["m"]


# The table that predict writes


@pytest.fixture
def asked(tmp_path, rows):
    learn_tables(tmp_path / "m", [sheet(tmp_path / "t.csv", *rows)], KIND)
    return tmp_path / "m", tmp_path / "t.csv", tmp_path / "o.csv"


def test_a_missing_model_or_table_is_named_although_the_output_is_there(asked):
    m, data, out = asked
    out.write_text("mine")
    for arguments in ((m.with_name("absent"), data), (m, data.with_name("absent.csv"))):
        with pytest.raises(rm.FileError, match="absent"):
            predict_table(*arguments, out, overwrite=True)
    assert out.read_text() == "mine"


def test_an_output_that_is_there_is_replaced_only_if_asked_to(asked):
    m, data, out = asked
    out.write_text("mine")
    with pytest.raises(rm.FileError, match="would be lost"):
        predict_table(m, data, out)
    assert out.read_text() == "mine"
    assert predict_table(m, data, out, overwrite=True).rows == 60 and out.read_text() != "mine"


def test_a_link_is_followed(asked, tmp_path):
    m, data, out = asked
    (tmp_path / "elsewhere").mkdir()
    out.symlink_to(tmp_path / "elsewhere" / "real.csv")
    predict_table(m, data, out)
    assert out.is_symlink() and open_table(tmp_path / "elsewhere" / "real.csv")
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["real.csv"]


def test_what_killed_writers_left_is_removed_and_what_others_write_is_not(asked):
    m, data, out = asked
    left, other = (out.with_name(f".o.csv.{mark * 16}.part") for mark in "af")
    left.touch()
    holding = f"""
import fcntl, time
file = open({str(other)!r}, "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        try:
            predict_table(m, data, out)
            assert other.exists() and not left.exists()
        finally:
            writer.kill()
    remove_abandoned(out)
    assert not other.exists()


SLOW = """
import sys, time
from remanence.tables import csv as text
from remanence.store.jobs import predict as asking
text.ROWS_AT_ONCE = 1
real = asking._predictions
def slow(*arguments):
    time.sleep(0.05)
    return real(*arguments)
asking._predictions = slow
from remanence.cli import main
main(["predict", *sys.argv[1:]])
"""


def test_a_terminated_predict_leaves_nothing(asked):
    m, data, out = asked
    with subprocess.Popen([sys.executable, "-c", SLOW, m, data, "-o", out], stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 60
        while not list(out.parent.glob(".o.csv.*.part")):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.01)
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == 128 + signal.SIGTERM
        assert run.stderr.read() == b""
    assert sorted(p.name for p in Path(out.parent).iterdir()) == ["m", "t.csv"]
