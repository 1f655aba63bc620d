"""One writer at a time: a lock file beside the file, released by the system even if the process is killed.

The locks are those of POSIX (flock). Without them writing raises FileError: two writers could overwrite each other's
changes unnoticed. Reading needs no lock.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from remanence.errors import FileError
from remanence.validation import check_number

PAUSE = 0.02  # seconds between two tries
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@contextmanager
def lock_file(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock of this path in a `with` block; wait for it for up to `wait` seconds."""
    wait = check_number(wait, "wait", closed=True, hint="seconds, like 10")
    beside = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + wait
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as problem:
            raise FileError(f"cannot write {path}: {problem.strerror}; name another folder") from None
        try:
            while not _taken(handle, beside):
                if time.monotonic() >= deadline:
                    raise FileError(
                        f"{path} is being written by another process, and still was after {wait:g} s; "
                        f"try again when that one is done"
                    )
                time.sleep(PAUSE)
            if not _still_there(handle, beside):  # its last holder removed the lock file: try again with a new one
                continue
            try:
                yield
            finally:
                beside.unlink(missing_ok=True)  # while it is held, so that no other lock is removed
            return
        finally:
            os.close(handle)


def _taken(handle: int, beside: Path) -> bool:
    """Whether the lock was acquired; raises FileError if the system or the file system has no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except ImportError:
        why = f"this system ({sys.platform}) has no POSIX file locks; write model files on Linux, macOS or in WSL"
    except OSError as problem:
        if problem.errno not in NO_LOCKS:
            why = f"its lock cannot be taken: {problem.strerror}"
        else:
            why = f"its file system has no locks ({problem.strerror}), so that two writers could overwrite each other"
        why += "; keep the model file on a local disk and copy it here when it is done"
    else:
        return True
    beside.unlink(missing_ok=True)  # (no process can hold it)
    raise FileError(f"cannot write {beside.with_suffix('')}: {why}")


def _still_there(handle: int, beside: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), beside.stat())
    except FileNotFoundError:
        return False
