"""Hashes: the only place that makes them. Model files, ledgers and checkpoints depend on the digests.

new_digest            a SHA-256 to be updated                     files that are read in parts (tables/hashing.py)
hash_bytes            bytes and texts, one after the other        checksums of files
content_fingerprint   bytes, texts and arrays, told apart         what a ledger knows rows by
row_keys              the numbers and texts of rows               rows and pieces of rows that a ledger knows
short                 the first 64 bits of a digest               fingerprints of encoders, networks and streams
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from remanence.arrays import Array

ROW_KEY = 16  # bytes
ROWS_AT_ONCE = 2048
MIXER = np.uint64(0x9E3779B97F4A7C15)


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


AddWords = Callable[[Array, Array, Array], None]


def row_keys(
    numbers: Array, texts: Sequence[Any] = (), more: Sequence[Array] = (), add_words: AddWords | None = None
) -> Array:
    """Keys of 16 bytes that tell rows from one another, (n,) "S16": of numbers (n, d), and of columns of text.

    A column of text is an array (n,), or a pair: distinct values, and the place of every row's value among them. `more`
    are further numbers (n, k) behind the first ones; `add_words` is a faster loop of the same sums (kernels/row_words).

    Each key is two sums of mixed 64-bit words with odd factors of their own for every column, modulo 2⁶⁴. That is much
    faster than a digest per row, and equal keys of different rows are as unlikely; it does not resist an attacker who
    chooses rows to collide. A negative zero is a zero, and labels are compared as text.
    """
    sums = np.zeros((2, len(numbers)), np.uint64)
    done = 0
    for block in (numbers, *more):
        factors = _factors(done, block.shape[1])
        (add_words or _add_words)(sums, block, factors)
        done += block.shape[1]
    for j, column in enumerate(texts):
        if isinstance(column, tuple):
            values, where = column
        else:
            found, where = np.unique(column, return_inverse=True)
            values = found.tolist()
        digests = [hashlib.blake2b(str(v).encode("utf-8", "surrogatepass"), digest_size=8) for v in values]
        words = _mixed(np.frombuffer(b"".join(digest.digest() for digest in digests), "<u8"))
        for lane in range(2):
            sums[lane] += (words * np.uint64(_factor(-2 - 2 * j + lane)))[where.reshape(-1)]
    keys = np.ascontiguousarray(_mixed(sums).T)
    return keys.astype("<u8", copy=False).view(f"S{ROW_KEY}").reshape(-1)


def key_words(keys: Array) -> Array:
    """The first 64 bits of every key, (n,) uint64."""
    padded = np.ascontiguousarray(keys.astype(f"S{ROW_KEY}", copy=False))
    return np.asarray(padded.view("<u8").reshape(-1, 2)[:, 0])


def hash_keys(keys: Array) -> str:
    """The SHA-256 of rows in their order, by their keys."""
    return hash_bytes(np.ascontiguousarray(keys.astype(f"S{ROW_KEY}", copy=False)).tobytes())


def _add_words(sums: Array, numbers: Array, factors: Array) -> None:
    """Add the words of rows of numbers (n, d) times factors (d, 2) to their sums (2, n)."""
    for first in range(0, len(numbers), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        _add_some(sums[:, part], numbers[part], factors)


def _add_some(sums: Array, numbers: Array, factors: Array) -> None:
    """The same for as many rows as a cache holds."""
    real, part = np.empty(len(numbers)), np.empty(len(numbers), np.uint64)
    words = real.view(np.uint64)
    for j in range(numbers.shape[1]):
        np.add(numbers[:, j], 0.0, out=real)
        np.right_shift(words, np.uint64(32), out=part)
        np.bitwise_xor(words, part, out=words)
        np.multiply(words, MIXER, out=words)
        np.right_shift(words, np.uint64(29), out=part)
        np.bitwise_xor(words, part, out=words)
        for lane in range(2):
            np.multiply(words, factors[j, lane], out=part)
            sums[lane] += part


def _mixed(words: Array) -> Array:
    words = words ^ (words >> np.uint64(32))
    words = words * MIXER
    return np.asarray(words ^ (words >> np.uint64(29)))


@cache
def _factors(first: int, count: int) -> Array:
    """The factors of columns of numbers from the first on, (count, 2)."""
    return np.array([_factor(place) for place in range(2 * first, 2 * (first + count))], np.uint64).reshape(-1, 2)


@cache
def _factor(place: int) -> int:
    """An odd number of 64 bits for a place (splitmix64)."""
    z = (place * 0x9E3779B97F4A7C15 + 0x243F6A8885A308D3) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31) | 1
