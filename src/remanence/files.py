"""Files that are either the old one or the new one, never half of each."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any

from remanence.errors import FileError

UNFINISHED = ".part"  # how the name of a file ends while it is being written


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


def write_atomically(path: Path, content: bytes | Iterable[Any]) -> None:
    """Write beside the file and move into its place; `content` is bytes, or buffers to be written one by one.

    When it returns, the file and its name are on the disk. An old file hands on its permissions.
    """
    beside = path.with_name(f".{path.name}.{token_hex(8)}{UNFINISHED}")
    parts: Iterable[Any] = (content,) if isinstance(content, bytes) else content
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            try:
                if path.exists():
                    os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
                beside.replace(path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
        _settle(path.parent)
    except OSError as problem:
        raise FileError(f"cannot write {path}: {problem.strerror}; free some space or name another folder") from None


def remove_unfinished(path: Path) -> None:
    """Remove what writers that were killed have left beside the file; only for whoever may write it alone."""
    whose = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}" + re.escape(UNFINISHED))
    for left in path.parent.glob("*" + UNFINISHED):
        if whose.fullmatch(left.name):
            left.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """A new name survives a loss of power only once its folder is on the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
