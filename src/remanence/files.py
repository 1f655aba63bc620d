"""Files that are either the old one or the new one, never half of each."""

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

UNFINISHED = ".part"  # how the name of a file ends while it is being written
CANNOT_SAY = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # from fsync where there is none


def make_folder(path: Path) -> Path:
    """The folder, made if it is not there and found writable."""
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
    """What is at a path, in words; "" where nothing is, or a plain file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return "" if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")


def refuse_unwritable(path: Path) -> None:
    """Refuse what may not be replaced: anything but a plain file, and a file that nobody may write."""
    found = kind_of_file(path)
    if found:
        hint = "name a file inside it" if found == "a folder" else "name a plain file"
        raise FileError(f"cannot write {path}: expected a file, got {found}; {hint}")
    if path.exists() and not path.stat().st_mode & 0o222:
        raise FileError(f"cannot write {path}: it is read-only; give write permission first, or name another file")


def write_atomically(path: Path, content: bytes | Iterable[Any]) -> None:
    """Write beside the file and move into its place; `content` is bytes, or buffers to be written one by one.

    When it returns, the file and its name are on the disk, as far as the file system can say. An old file hands on its
    permissions where they can be set; one that is read-only is not replaced.
    """
    refuse_unwritable(path)
    parts: Iterable[Any] = (content,) if isinstance(content, bytes) else content
    try:
        beside, handle = _begun(path)
        with os.fdopen(handle, "wb") as file:
            try:
                _hand_on_permissions(path, handle)
                for part in parts:
                    file.write(part)
                file.flush()
                _settle(handle)
                beside.replace(path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
    except OSError as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(f"cannot write {path}: {problem.strerror}; free some space or name another folder") from None
    _settle_folder(path)


def _begun(path: Path) -> tuple[Path, int]:
    """A new unfinished file beside this one, locked so that nobody takes it for abandoned."""
    while True:
        beside = path.with_name(f".{path.name}.{token_hex(8)}{UNFINISHED}")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        _is_mine(handle)
        if beside.exists():  # else it was taken for abandoned before it was locked
            return beside, handle
        os.close(handle)


def _is_mine(handle: int) -> bool:
    """Whether nobody else holds the lock of this open file; then we do, where there are locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _hand_on_permissions(path: Path, handle: int) -> None:
    """Some file systems have no permissions to set (EPERM): then there are none to hand on."""
    if path.exists() and hasattr(os, "fchmod"):
        with suppress(PermissionError):
            os.fchmod(handle, path.stat().st_mode & 0o777)


def remove_unfinished(path: Path) -> None:
    """Remove what writers that were killed have left beside the file; only for whoever may write it alone."""
    for left in _unfinished(path):
        left.unlink(missing_ok=True)


def remove_abandoned(path: Path) -> None:
    """Remove what writers of this file that were killed have left beside it, and nothing that one still writes."""
    for left in _unfinished(path):
        with suppress(OSError):
            handle = os.open(left, os.O_WRONLY)
            try:
                if _is_mine(handle):
                    left.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _unfinished(path: Path) -> Iterator[Path]:
    whose = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}" + re.escape(UNFINISHED))
    return (left for left in path.parent.glob("*" + UNFINISHED) if whose.fullmatch(left.name))


def _settle(handle: int) -> None:
    """Wait until the content is on the disk; some file systems cannot say (EINVAL), and then nobody knows better."""
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in CANNOT_SAY:
            raise


def _settle_folder(path: Path) -> None:
    """A new name survives a loss of power only once its folder is on the disk too; the file itself is in its place."""
    try:
        handle = os.open(path.parent, os.O_RDONLY)
    except OSError:  # a folder that may not be read, or a system that does not open folders
        return
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in CANNOT_SAY:
            warnings.warn(
                f"{path} was written, but its folder could not be brought to the disk ({problem.strerror}): after a "
                f"loss of power the file before it may be there again",
                UserWarning,
                stacklevel=3,
            )
    finally:
        os.close(handle)
