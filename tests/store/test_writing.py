"""Writers that are killed, that fail, that come at the same time: the file is always one that somebody meant."""

import os
import subprocess
import sys
import threading
import time

import pytest

import remanence as rm
from remanence.store import Entry, Ledger, ModelFile, content_fingerprint, locked, read, write

# One process that forks writers: each writes model after model, of 0, 1, 2, … entries and as many rows, and is killed.
KILLING = """
import os, random, signal, sys, time
import numpy as np
import remanence as rm
from remanence.store import Entry, ModelFile, content_fingerprint, describe, locked, read, write

path, kills = sys.argv[1], int(sys.argv[2])
method = rm.RLS()

def grown(model):
    (_, state), n = model.learner, len(model.ledger)
    entry = Entry(content_fingerprint(str(n)), str(n), 1)
    rows = np.full((1, 200), n + 1.0), np.ones((1, 2))
    return ModelFile((method, method.update(state, *rows)), model.ledger.with_entry(entry))

def write_on():
    while True:
        with locked(path) as file:
            file.write(grown(file.read()))

write(path, ModelFile((method, method.init(200, 2))))
folder = os.path.dirname(path)
unfinished = lambda: any(name.endswith(".part") for name in os.listdir(folder))
chance, last, during = random.Random(0), 0, 0
for kill in range(kills):
    child = os.fork()
    if not child:
        write_on()
    while len(describe(path).ledger) == last:  # it writes
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.01))
    while kill % 2 and not unfinished():  # every other time in the middle of it
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    model = read(path)
    assert model.learner[1].count == len(model.ledger) >= last, "the state and the ledger are from one moment"
    during += unfinished()
    last = len(model.ledger)
write(path, read(path))
print(last, during, sorted(os.listdir(folder)))
"""

# Writers that all count up the same ledger: an update that is lost would be seen.
TOGETHER = """
import os, sys
import remanence as rm
from remanence.store import Entry, ModelFile, content_fingerprint, locked, read, write

path, writers, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
method = rm.LMS()
write(path, ModelFile((method, method.init(3, 1))))
children = []
for writer in range(writers):
    children.append(os.fork())
    if not children[-1]:
        for i in range(times):
            with locked(path, wait=60) as file:
                model = file.read()
                entry = Entry(content_fingerprint(f"{writer} {i}"), f"{writer} {i}", 1)
                file.write(ModelFile(model.learner, model.ledger.with_entry(entry)))
        os._exit(0)
codes = [os.waitpid(child, 0)[1] for child in children]
print(codes, len(read(path).ledger), sorted(os.listdir(os.path.dirname(path))))
"""


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_twenty_kills_in_the_middle_of_writing_leave_a_sound_file(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    last, during, left = run(KILLING, folder / "m.safetensors", 20).split(" ", 2)
    assert int(last) >= 20 and left == "['m.safetensors']", "killed writers' leavings are removed by the next writer"
    assert int(during) > 0, "some of the kills must have come in the middle of a write"


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    assert run(TOGETHER, folder / "m.safetensors", 3, 15) == "[0, 0, 0] 45 ['m.safetensors']"


def test_threads_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "m.safetensors"
    write(path, ModelFile((rm.LMS(), rm.LMS().init(2, 1))))

    def count_up(name):
        for i in range(8):
            with locked(path, wait=60) as file:
                model = file.read()
                entry = Entry(content_fingerprint(f"{name}{i}"), name, 1)
                file.write(ModelFile(model.learner, model.ledger.with_entry(entry)))

    threads = [threading.Thread(target=count_up, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read(path).ledger) == 24


def test_a_lock_that_is_held_is_waited_for_and_then_named(tmp_path, small):
    path = tmp_path / "m.safetensors"
    with locked(path):
        began = time.monotonic()
        with pytest.raises(rm.FileError, match=r"m\.safetensors is being written by another process"):
            rm.save(small, path, wait=0.2)
        assert 0.2 <= time.monotonic() - began < 5
        assert not path.exists()
        waiting = threading.Thread(target=rm.save, args=(small, path), kwargs={"wait": 30})
        waiting.start()
        time.sleep(0.1)
        assert not path.exists()
    waiting.join()
    assert rm.load(path).n_seen_ == small.n_seen_
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_a_lock_left_by_a_killed_process_holds_nobody_up(tmp_path, small):
    (tmp_path / "m.safetensors.lock").touch()
    rm.save(small, tmp_path / "m.safetensors", wait=0)
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_two_names_of_one_file_share_its_lock_and_stay_two_names(tmp_path, small):
    path, name = tmp_path / "m.safetensors", tmp_path / "latest"
    rm.save(small, path)
    name.symlink_to(path)
    with locked(name), pytest.raises(rm.FileError, match="another process"):
        rm.save(small, path, wait=0)
    rm.save(small, name)
    assert name.is_symlink() and rm.load(name).n_seen_ == rm.load(path).n_seen_


def test_what_raises_inside_has_changed_nothing(tmp_path, small):
    path = tmp_path / "m.safetensors"
    rm.save(small, path)
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), locked(path):
        raise ZeroDivisionError
    with pytest.raises(rm.InputError):
        rm.save(rm.ContinualClassifier(rm.LMS(lambda t: 1.0)), path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path, small):
    tmp_path.chmod(0o500)
    with pytest.raises(rm.FileError, match="Permission denied"):
        rm.save(small, tmp_path / "m.safetensors")
    tmp_path.chmod(0o700)


def test_places_where_no_file_can_be_are_named(tmp_path, small):
    with pytest.raises(rm.FileError, match="No such file or directory"):
        rm.save(small, tmp_path / "absent" / "m.safetensors")
    (tmp_path / "folder").mkdir()
    with pytest.raises(rm.FileError, match="got a folder"):
        rm.save(small, tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_saving_over_a_ledger_is_refused(tmp_path, small):
    path = tmp_path / "m.safetensors"
    ledger = Ledger((Entry(content_fingerprint(b"rows"), "monday.csv", 53),))
    write(path, ModelFile(small, ledger))
    with pytest.raises(rm.FileError, match="keeps a ledger"):
        rm.save(small, path)
    assert read(path).ledger == ledger
    (tmp_path / "old.csv").write_text("a,b\n")
    rm.save(small, tmp_path / "old.csv")
    rm.save(small, tmp_path / "old.csv")
    assert rm.load(tmp_path / "old.csv").n_seen_ == 53
