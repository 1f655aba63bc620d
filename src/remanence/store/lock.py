"""One writer at a time: a lock beside the file, which the system lets go of even when its holder is killed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from remanence.checks import check_number
from remanence.errors import FileError

PAUSE = 0.02  # seconds between two tries


@contextmanager
def alone(path: Path, wait: float) -> Iterator[None]:
    """Be the only one inside such a block for this path, waiting for up to `wait` seconds."""
    import fcntl

    wait = check_number(wait, "wait", closed=True, hint="seconds, like 10")
    beside = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + wait
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as problem:
            raise FileError(f"cannot write {path}: {problem.strerror}; name another folder") from None
        try:
            while not _taken(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if time.monotonic() >= deadline:
                    raise FileError(
                        f"{path} is being written by another process, and still was after {wait:g} s; "
                        f"try again when that one is done"
                    )
                time.sleep(PAUSE)
            if not _still_there(handle, beside):  # its last holder removed it: what we hold is the lock of nothing
                continue
            try:
                yield
            finally:
                beside.unlink(missing_ok=True)  # while it is ours, so that nobody else's goes
            return
        finally:
            os.close(handle)


def _taken(handle: int, how: int) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        return False
    return True


def _still_there(handle: int, beside: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), beside.stat())
    except FileNotFoundError:
        return False
