"""Threads that help with one piece of work at a time, and stay for the next.

The caller does the work itself, and helpers join when they get to run: work that is over before one has woken up has
not waited for it. A piece of work must give the same result whoever takes part, and return only when all of it is done.
"""

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread

Work = Callable[[], None]


class _Pool:
    """Helpers that wait for work; they are started when they are first needed."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: a forked child has none of the parent's threads, and its locks may be held by them."""
        self.lock, self.calls = Lock(), SimpleQueue[list[Work]]()
        self.helpers, self.engaged = 0, 0

    def run(self, work: Work, threads: int) -> None:
        """Call `work` here and in up to `threads` − 1 helpers, fewer while others use them."""
        with self.lock:
            helping = max(0, threads - 1 - self.engaged)
            self.engaged += 1 + helping
        call = [work] * helping
        try:
            self._start(helping)
            for _ in range(helping):
                self.calls.put(call)
            work()
        finally:
            call.clear()  # who wakes up later finds nothing to do, and holds nothing
            with self.lock:
                self.engaged -= 1 + helping

    def _start(self, count: int) -> None:
        while self.helpers < count:
            with self.lock:
                if self.helpers >= count:
                    return
                try:
                    Thread(target=_help, args=(self.calls,), name="remanence", daemon=True).start()
                except RuntimeError:  # no more threads, or the interpreter is about to end: it goes without
                    return
                self.helpers += 1


def _help(calls: SimpleQueue[list[Work]]) -> None:
    while True:
        call = calls.get()
        try:
            work = call.pop()
        except IndexError:
            continue
        work()
        del work, call


pool = _Pool()
if os.name == "posix":
    os.register_at_fork(after_in_child=pool.reset)
