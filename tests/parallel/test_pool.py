"""Helpers join a piece of work; the caller never depends on them."""

import os
import threading
import time

import numpy as np
import pytest

import remanence as rm
from remanence.parallel.pool import _Pool, pool


def test_helpers_take_part_and_stay():
    own, names = _Pool(), set()
    meeting = threading.Barrier(3, timeout=20)

    def work():
        meeting.wait()
        names.add(threading.current_thread())

    own.run(work, 3)
    deadline = time.monotonic() + 20
    while len(names) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    first = set(names)
    assert len(first) == 3 and own.helpers == 2
    own.run(work, 3)
    while own.engaged or meeting.n_waiting:
        time.sleep(0.001)
    assert names == first


def test_one_thread_starts_no_helper():
    own, calls = _Pool(), []
    own.run(lambda: calls.append(threading.current_thread()), 1)
    assert calls == [threading.current_thread()] and own.helpers == 0


def test_while_others_are_at_work_fewer_help():
    own, inside, over = _Pool(), threading.Event(), threading.Event()

    def busy():
        inside.set()
        over.wait(20)

    other = threading.Thread(target=own.run, args=(busy, 1))
    other.start()
    inside.wait(20)
    own.run(lambda: None, 2)  # one of two threads is taken by the other call
    assert own.helpers == 0
    over.set()
    other.join()
    assert own.engaged == 0


def test_what_the_caller_raises_is_raised_and_the_pool_goes_on():
    own = _Pool()

    def work():
        if threading.current_thread() is threading.main_thread():
            raise MemoryError

    with pytest.raises(MemoryError):
        own.run(work, 2)
    assert own.engaged == 0
    own.run(lambda: None, 2)


def test_without_threads_the_caller_does_it_alone(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    own, calls = _Pool(), []
    own.run(lambda: calls.append(1), 4)
    assert calls == [1] and own.helpers == 0


def learn():
    rng = np.random.default_rng(0)
    X, Y, m = rng.standard_normal((900, 600)), rng.standard_normal((900, 2)), rm.RLS()
    with rm.threads(3):
        return m.weights(m.update(m.init(600, 2), X, Y))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_folds_with_helpers_of_its_own():
    wanted = learn()
    assert pool.helpers >= 2
    pid = os.fork()
    if not pid:
        import signal

        signal.alarm(60)
        try:
            fresh = pool.helpers == 0 and pool.engaged == 0
            same = (learn() == wanted).all() and (learn() == wanted).all()
            os._exit(0 if fresh and same and pool.helpers == 2 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert (learn() == wanted).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_forked_while_helpers_fold_never_hang():
    wanted, stop = learn(), threading.Event()

    def teach():
        while not stop.is_set():
            learn()

    teachers = [threading.Thread(target=teach) for _ in range(2)]
    for teacher in teachers:
        teacher.start()
    try:
        for _ in range(6):
            pid = os.fork()
            if not pid:
                import signal

                signal.alarm(60)
                try:
                    os._exit(0 if (learn() == wanted).all() else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for teacher in teachers:
            teacher.join()
