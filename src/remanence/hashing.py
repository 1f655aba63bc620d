"""Hashes: the only place that makes them. Model files, ledgers and checkpoints depend on the digests.

new_digest            a SHA-256 to be updated                     files that are read in parts (tables/hashing.py)
hash_bytes            bytes and texts, one after the other        checksums of files
content_fingerprint   bytes, texts and arrays, told apart         what a ledger knows rows by
hash_row              the numbers of a row and its targets        rows that are unlearned
short                 the first 64 bits of a digest               fingerprints of encoders, networks and streams
"""

import hashlib
from typing import Any, Protocol

import numpy as np

ROW_KEY = 16  # bytes


class Digest(Protocol):
    """A hash to be updated."""

    def update(self, data: Any, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


def new_digest(*parts: Any) -> Digest:
    """A SHA-256 to be updated, of these bytes and texts so far."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest


def hash_bytes(*parts: Any) -> str:
    """The SHA-256 of bytes and texts, one after the other."""
    return new_digest(*parts).hexdigest()


def short(digest: Digest) -> str:
    """The first 64 bits of a digest, as text."""
    return digest.hexdigest()[:16]


def content_fingerprint(*parts: Any) -> str:
    """The SHA-256 of bytes, texts and arrays, told apart by their types and lengths."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            data, kind = bytes(part), "bytes"
        elif isinstance(part, str):
            data, kind = part.encode("utf-8", "surrogatepass"), "text"
        else:
            array = np.asarray(part)
            if array.dtype.kind == "O":
                array = np.array([str(v) for v in array.ravel()]).reshape(array.shape)
            data, kind = np.ascontiguousarray(array).tobytes(), f"{array.dtype.str}{array.shape}"
        digest.update(f"{kind}:{len(data)}:".encode() + data)
    return digest.hexdigest()


def hash_row(numbers: bytes, target: Any) -> bytes:
    """A key of 16 bytes that tells one row from another."""
    return hashlib.blake2b(numbers + repr(target).encode(), digest_size=ROW_KEY).digest()
