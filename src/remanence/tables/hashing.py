"""Hashes of files, by which ledgers of earlier versions know them, and whether a file changes while it is read."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from remanence.errors import InputError
from remanence.hashing import new_digest

CHUNK = 1 << 20  # bytes read at once


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
