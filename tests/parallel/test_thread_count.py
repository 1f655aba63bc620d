"""How many threads are used: set, limited to a block, or what this process may use."""

import os
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import remanence as rm
from remanence.parallel import cores, thread_count
from remanence.parallel.blas_threads import _libraries, one_thread, set_number


@pytest.fixture(autouse=True)
def restored():
    yield
    rm.set_threads(None)


def test_set_threads_and_the_context_manager():
    rm.set_threads(3)
    assert thread_count.thread_count() == 3
    with rm.threads(2):
        assert thread_count.thread_count() == 2
        with rm.threads(np.int64(5)):
            assert thread_count.thread_count() == 5
        with rm.threads(None):
            assert thread_count.thread_count() <= (os.cpu_count() or 1)
        assert thread_count.thread_count() == 2
    assert thread_count.thread_count() == 3
    with pytest.raises(RuntimeError), rm.threads(7):
        raise RuntimeError
    assert thread_count.thread_count() == 3


def test_the_context_manager_holds_for_its_own_thread():
    rm.set_threads(3)
    found = []
    with rm.threads(2):
        other = Thread(target=lambda: found.append(thread_count.thread_count()))
        other.start()
        other.join()
    assert found == [3]


@pytest.mark.parametrize("bad", [0, -1, 1.0, 2.5, True, "2", [2], 10**9, np.nan, np.array([2])])
def test_what_is_no_number_of_threads_is_refused_and_changes_nothing(bad):
    rm.set_threads(3)
    with pytest.raises(rm.InputError, match="number of threads"):
        rm.set_threads(bad)
    with pytest.raises(rm.InputError, match="number of threads"), rm.threads(bad):
        pass
    assert thread_count.thread_count() == 3


def test_limits_of_threadpoolctl_are_respected():
    with threadpool_limits(1):
        assert thread_count.thread_count() == 1
        with one_thread:
            assert thread_count.thread_count() == 1
    with threadpool_limits(2):
        known = thread_count.thread_count()
        with one_thread:  # our own limit is not one of the user's
            assert thread_count.thread_count() == known
    with rm.threads(4), threadpool_limits(1):  # what was asked for in so many words is done
        assert thread_count.thread_count() == 4


def test_affinity_and_environment_are_respected(monkeypatch):
    monkeypatch.setattr(cores, "quota", lambda: None)
    monkeypatch.setattr(cores, "_affinity", lambda: 12)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores.cores() == 12
    for words, wanted in {"3": 3, "4,2": 4, " 5 ": 5, "64": 12, "0": 12, "-1": 12, "": 12, "many": 12}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", words)
        assert cores.cores() == wanted
    monkeypatch.delenv("OMP_NUM_THREADS")
    for share, wanted in {0.2: 1, 1.2: 1, 1.8: 2, 3.0: 3, 40.0: 12}.items():
        monkeypatch.setattr(cores, "quota", lambda share=share: share)
        assert cores.cores() == wanted


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinities")
def test_a_process_bound_to_one_core_uses_one_thread():
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from remanence.parallel.thread_count import thread_count; print(thread_count())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "1", done.stderr


GROUPS = {
    "version 2": ("0::/user/job\n", {"user/job/cpu.max": "max 100000\n", "user/cpu.max": "150000 100000\n"}, 1.5),
    "version 2, own namespace": ("0::/\n", {"cpu.max": "200000 100000\n"}, 2.0),
    "version 2, no limit": ("0::/job\n", {"job/cpu.max": "max 100000\n"}, None),
    "version 1": (
        "4:memory:/job\n3:cpu,cpuacct:/job\n",
        {"cpu/job/cpu.cfs_quota_us": "50000\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
        0.5,
    ),
    "version 1, no limit": (
        "3:cpu:/job\n",
        {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
        None,
    ),
    "version 1, seen from inside": (
        "3:cpu:/docker/abc\n",
        {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"},
        3.0,
    ),
    "damaged": ("0::/job\n", {"job/cpu.max": "some words here\n"}, None),
    "none": ("", {}, None),
}


@pytest.mark.parametrize("case", GROUPS)
def test_quotas_of_control_groups(case, tmp_path, monkeypatch):
    membership, files, wanted = GROUPS[case]
    monkeypatch.setattr(cores, "CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(cores, "MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores.quota.__wrapped__() == wanted


def test_blas_is_held_to_one_thread_whichever_python_thread_asks_for_it():
    """threadpoolctl lets one Python thread alone set the number, by default."""

    def numbers():
        return [library.get_num_threads() for library in _libraries()]

    def inside():
        with one_thread:
            found.append(numbers())

    before, found = numbers(), []
    try:
        for library in _libraries():
            set_number(library, 2)
        inside()
        for _ in range(2):
            other = Thread(target=inside)
            other.start()
            other.join()
        assert found == 3 * [[1] * len(before)] and numbers() == [2] * len(before)
    finally:
        for library, count in zip(_libraries(), before, strict=True):
            set_number(library, count)
