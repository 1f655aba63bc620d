"""A process that forks while its threads predict and learn: the child must be able to do the same."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from remanence.memory.pending_rows import RowBuffer
from remanence.parallel.blas_threads import _libraries, one_thread

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PROGRAM = """
import os, sys, threading, time
import numpy as np, remanence as rm
d, forks = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((400, d)), rng.standard_normal((400, 1))
m = rm.RLS()
shared = [m.update(m.init(d, 1), X, Y)]
m.weights(m.update(shared[0], X[:1], Y[:1]))
stop = threading.Event()
def work():
    i = 0
    while not stop.is_set():
        i = (i + 1) % 399
        shared[0] = m.update(shared[0], X[i : i + 1], Y[i : i + 1])
        m.predict(shared[0], X[:2])
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
[t.start() for t in threads]
hung = 0
for i in range(forks):
    time.sleep(0.002 * (i % 3))
    pid = os.fork()
    if not pid:
        state = shared[0]
        good = np.isfinite(m.predict(m.update(state, X[:3], Y[:3]), X[:2])).all()
        os._exit(0 if good else 1)
    end = time.monotonic() + 10
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.001)
    if done == (0, 0):
        hung += 1
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    elif done[1]:
        sys.exit("a child answered wrongly")
    if hung:
        break
stop.set()
sys.exit(f"{hung} children hung" if hung else 0)
"""


def forked(d, forks):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM), str(d), str(forks)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("d", [20, 300])
def test_children_forked_while_threads_learn_and_predict_never_hang(d):
    forked(d, 40)


@pytest.mark.sweep
@pytest.mark.parametrize("d", [20, 300])
def test_400_children_forked_while_threads_learn_and_predict_never_hang(d):
    forked(d, 400)


def in_a_child(check):
    """Whether the check holds in a forked child; a child that hangs is ended."""
    pid = os.fork()
    if not pid:
        import signal

        signal.alarm(20)
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lock_that_another_thread_holds_is_open_in_the_child():
    buffer = RowBuffer(4, np.zeros((3, 1)))
    with buffer.lock:
        assert in_a_child(lambda: buffer.lock.acquire(timeout=1))
        assert buffer.lock.locked()
    with one_thread.lock:
        assert in_a_child(lambda: one_thread.lock.acquire(timeout=1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_number_of_blas_threads_is_put_back_in_the_child():
    before = [library.get_num_threads() for library in _libraries()]

    def put_back():
        with one_thread:
            pass
        return [library.get_num_threads() for library in _libraries()] == before and not one_thread.inside

    with one_thread:
        assert in_a_child(put_back)
        assert one_thread.inside == 1
    assert [library.get_num_threads() for library in _libraries()] == before


def test_a_fork_inside_a_product_of_its_own_thread_does_not_wait_for_itself():
    from remanence.parallel.forking import unforked

    with unforked:
        pid = os.fork()
        if not pid:
            with unforked:
                pass
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    with unforked:
        pass


def test_a_fork_waits_for_products_of_other_threads():
    """A child that is made in the middle of one may find a lock of BLAS closed for ever."""
    import threading
    import time

    from remanence.parallel.forking import unforked

    entered, over = threading.Event(), []

    def multiply():
        with unforked:
            entered.set()
            time.sleep(0.2)
            over.append(True)

    thread = threading.Thread(target=multiply)
    thread.start()
    entered.wait()
    pid = os.fork()
    if not pid:
        os._exit(0 if over else 1)
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0
