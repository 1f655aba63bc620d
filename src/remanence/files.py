"""Atomic writing of files: a reader sees the old content or the new one, never a part of it."""

import errno
import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from remanence.errors import FileError

UNFINISHED = ".part"  # ending of the name of a file that is being written
NO_FSYNC = (
    errno.EINVAL,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
)  # errors of fsync on file systems that do not support it


def json_value(value: Any) -> Any:
    """The value with infinity and NaN as text, because JSON has no such numbers; `float` reads them back."""
    if isinstance(value, dict):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    return value if not isinstance(value, float) or abs(value) < float("inf") else str(value)


def make_folder(path: Path) -> Path:
    """Create the folder unless it exists, and check that it is writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(f"expected {path} to be a folder, got a file; name another folder") from None
    except OSError as problem:
        raise FileError(f"cannot make the folder {path}: {problem.strerror}; name another folder") from None
    if not os.access(path, os.W_OK):
        raise FileError(f"cannot write into the folder {path}; name another folder or change its permissions")
    return path


def kind_of_file(path: Path) -> str:
    """What is at a path, for messages; "" if nothing is there, or a regular file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return "" if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")


def check_writable(path: Path) -> None:
    """Raise a FileError for anything but a regular file, and for read-only files."""
    found = kind_of_file(path)
    if found:
        hint = "name a file inside it" if found == "a folder" else "name a plain file"
        raise FileError(f"cannot write {path}: expected a file, got {found}; {hint}")
    if path.exists() and not path.stat().st_mode & 0o222:
        raise FileError(f"cannot write {path}: it is read-only; give write permission first, or name another file")


def write_atomically(path: Path, content: bytes | Iterable[Any]) -> None:
    """Write a temporary file in the same folder and rename it; `content` is bytes, or buffers to write one by one.

    On return the file and its name are on the disk, as far as the file system supports fsync. The permissions of an
    old file are kept where they can be set; a read-only file is not replaced.
    """
    check_writable(path)
    parts: Iterable[Any] = (content,) if isinstance(content, bytes) else content
    try:
        beside, handle = _temporary(path)
        with os.fdopen(handle, "wb") as file:
            try:
                _copy_permissions(path, handle)
                for part in parts:
                    file.write(part)
                file.flush()
                _sync(handle)
                beside.replace(path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
    except OSError as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(f"cannot write {path}: {problem.strerror}; free some space or name another folder") from None
    _sync_folder(path)


def _temporary(path: Path) -> tuple[Path, int]:
    """A new temporary file in the same folder, locked so that it is not taken for abandoned."""
    while True:
        beside = path.with_name(f".{path.name}.{token_hex(8)}{UNFINISHED}")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        _locked(handle)
        if beside.exists():  # else it was removed as abandoned before it was locked
            return beside, handle
        os.close(handle)


def _locked(handle: int) -> bool:
    """Lock an open file; False if another process has locked it, or there are no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _copy_permissions(path: Path, handle: int) -> None:
    """Copy the permissions of the old file; some file systems have none to set (EPERM)."""
    if path.exists() and hasattr(os, "fchmod"):
        with suppress(PermissionError):
            os.fchmod(handle, path.stat().st_mode & 0o777)


def remove_unfinished(path: Path) -> None:
    """Remove temporary files that killed writers have left; only while holding the lock of the file."""
    for left in _unfinished(path):
        left.unlink(missing_ok=True)


def remove_abandoned(path: Path) -> None:
    """Remove temporary files that killed writers of this file have left, but none that is still being written."""
    for left in _unfinished(path):
        with suppress(OSError):
            handle = os.open(left, os.O_WRONLY)
            try:
                if _locked(handle):
                    left.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _unfinished(path: Path) -> Iterator[Path]:
    whose = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}" + re.escape(UNFINISHED))
    return (left for left in path.parent.glob("*" + UNFINISHED) if whose.fullmatch(left.name))


def _sync(handle: int) -> None:
    """Wait until the content is on the disk; ignored on file systems without fsync (EINVAL)."""
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in NO_FSYNC:
            raise


def _sync_folder(path: Path) -> None:
    """Wait until the folder is on the disk too: only then does the new name survive a loss of power."""
    try:
        handle = os.open(path.parent, os.O_RDONLY)
    except OSError:  # a folder that may not be read, or a system that does not open folders
        return
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in NO_FSYNC:
            warnings.warn(
                f"{path} was written, but its folder could not be synced to the disk ({problem.strerror}): after a "
                f"loss of power the file before it may be there again",
                UserWarning,
                stacklevel=3,
            )
    finally:
        os.close(handle)
