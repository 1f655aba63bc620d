"""Hashes of files that may change while they are read: the rows that were parsed are those that were hashed.

A text file is hashed as the parser reads it. Where it was hashed before, to find out whether it is known, both hashes
must agree, else the file was written to in between and nothing of it may be used.
"""

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from remanence.errors import FileError, InputError
from remanence.hashing import new_digest

CHUNK = 1 << 20  # bytes read at once


class LineTooLong(ValueError):
    """A line of a text is longer than allowed."""


class HashingFile(io.RawIOBase):
    """A file that is read once from start to end, and hashed as it is read.

    `prefixes` are lengths in bytes; the SHA-256 of that much of the beginning is collected in `prefix_hashes` as soon
    as more than that was read. Lines longer than `longest_line` bytes raise LineTooLong.
    """

    def __init__(self, path: Path, longest_line: int, prefixes: Iterable[int] = ()) -> None:
        try:
            self.file = path.open("rb", buffering=0)
        except OSError as problem:
            raise FileError(f"cannot read {path}: {problem.strerror}") from None
        self.opened = _version(os.fstat(self.file.fileno()))
        self.digest, self.count = new_digest(), 0  # of the bytes read so far
        self.cuts = sorted(set(prefixes), reverse=True)
        self.prefix_hashes: dict[int, str] = {}
        self.longest_line, self.line = longest_line, 0  # bytes of the last line so far
        self.ended = True  # whether the last line read so far ends with a line break
        self.unchanged = True  # from opening the file to its end

    @property
    def size(self) -> int:
        """The length of the file in bytes when it was opened."""
        return self.opened[0]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto(buffer) or 0
        part = bytes(memoryview(buffer)[:count])
        self._hash(part)
        last = max(part.rfind(b"\n"), part.rfind(b"\r"))
        self.line = self.line + count if last < 0 else count - 1 - last
        if self.line > self.longest_line:
            raise LineTooLong
        if count:
            self.ended = last == count - 1
        else:
            self.unchanged = _version(os.fstat(self.file.fileno())) == self.opened
        return count

    def _hash(self, part: bytes) -> None:
        view = memoryview(part)
        while self.cuts and self.cuts[-1] < self.count + len(view):
            cut = self.cuts.pop()
            self.digest.update(view[: cut - self.count])
            view, self.count = view[cut - self.count :], cut
            self.prefix_hashes[cut] = self.digest.hexdigest()
        self.digest.update(view)
        self.count += len(view)

    def close(self) -> None:
        self.file.close()
        super().close()


def hash_of_bytes(path: Path, spans: Iterable[tuple[int, int]] | None = None, salt: str = "") -> str:
    """SHA-256 of a file, or of some (start, length) spans of it, without reading it all at once."""
    digest = new_digest(salt)
    with path.open("rb", buffering=0) as file:
        if spans is None:
            while part := file.read(CHUNK):
                digest.update(part)
            return digest.hexdigest()
        for start, length in spans:
            file.seek(start)
            while length > 0 and (part := file.read(min(length, CHUNK))):
                digest.update(part)
                length -= len(part)
    return digest.hexdigest()


def identity(path: Path) -> tuple[int, ...]:
    """Tells a file from another of the same name, and from itself after it was written to."""
    status = path.stat()
    return status.st_dev, status.st_ino, *_version(status)


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def raise_changed(name: str) -> NoReturn:
    raise InputError(
        f"{name} changed while it was being read, so nothing of it was used; try again once it is complete"
    )
