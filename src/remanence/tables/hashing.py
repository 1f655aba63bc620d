"""Hashes of files that may change while they are read: what was parsed is what was hashed, or it is refused.

A file is hashed first, to decide whether it is known, and its bytes once more as the parser takes them. Where the two
differ, somebody wrote to the file in between, and nothing of it may be used.
"""

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from remanence.errors import InputError

PART = 1 << 20  # bytes read at once


class LineTooLong(ValueError):
    """A line of a text is longer than allowed."""


class HashingFile(io.RawIOBase):
    """A file to be read from beginning to end, which hashes every byte that is read and looks for lines without end."""

    def __init__(self, path: Path, longest: int) -> None:
        self.file = path.open("rb", buffering=0)
        self.digest = hashlib.sha256()
        self.longest, self.line = longest, 0  # bytes of a line at most, and so far of the last one
        self.ended = True  # with a line break, so far

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto(buffer) or 0
        part = bytes(memoryview(buffer)[:count])
        self.digest.update(part)
        last = max(part.rfind(b"\n"), part.rfind(b"\r"))
        self.line = self.line + count if last < 0 else count - 1 - last
        if self.line > self.longest:
            raise LineTooLong
        if count:
            self.ended = last == count - 1
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def hash_with_beginnings(path: Path, lengths: Iterable[int] = ()) -> tuple[str, int, dict[int, str]]:
    """SHA-256 of a file, its length in bytes, and the SHA-256 of its first bytes for each of `lengths` it reaches."""
    digest, place, found = hashlib.sha256(), 0, {}
    cuts = sorted(set(lengths), reverse=True)
    with path.open("rb", buffering=0) as file:
        while part := file.read(min(PART, cuts[-1] - place) if cuts else PART):
            digest.update(part)
            place += len(part)
            if cuts and place == cuts[-1]:
                found[cuts.pop()] = digest.hexdigest()
    return digest.hexdigest(), place, found


def identity(path: Path) -> tuple[int, ...]:
    """Tells one file from another of the same name, and one that was written to from what it was."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def refuse_changed(name: str) -> NoReturn:
    raise InputError(
        f"{name} changed while it was being read, so nothing of it was used; try again once it is complete"
    )
