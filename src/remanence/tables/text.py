"""Text files as a parser reads them: decompressed, in UTF-8, whole lines only, and no more than there was at first.

A file that is being written to may end within a line. Such a line waits: it is left out until it has a line break, so
that half of a number is never taken for a number. Rows that are appended while a file is read wait as well.
"""

import codecs
import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from remanence.errors import FileError, InputError
from remanence.tables.formats import compression_of
from remanence.tables.hashing import raise_changed

CHUNK = 3 << 19  # bytes read at once
LONGEST_LINE = 1 << 24  # bytes
Bytes = bytes | memoryview
T = TypeVar("T")
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class TextSource(io.RawIOBase):
    """The lines of a text file, as bytes of UTF-8.

    `whole` also returns a last line without a line break. `quote` is the character that must occur an even number of
    times, b"" for none.
    """

    def __init__(self, path: Path, encoding: str | None = None, quote: bytes = b"", whole: bool = True) -> None:
        self.name, self.whole, self.quote = path.name, whole, quote
        try:
            self.file = path.open("rb", buffering=0)
        except OSError as problem:
            raise FileError(f"cannot read {path}: {problem.strerror}") from None
        status = os.fstat(self.file.fileno())
        self.opened, self.identity = _version(status), (status.st_dev, status.st_ino, *_version(status))
        self.left = self.opened[0]  # bytes that are still to be read
        self.packed = _decompressed(self, compression_of(path))
        self.ready, self.tail = list[Bytes](), b""  # parts of whole lines, and the beginning of the next line
        self.quotes, self.ended, self.waiting, self.done = 0, True, False, False
        start: bytes = self._raw(lambda: self.packed.read(CHUNK) or b"")
        mark = next((bom for bom in BOMS if start.startswith(bom)), b"")
        self.encoding = encoding or BOMS.get(mark, "utf-8")
        self.decode = _decoder(self.encoding)
        self._take(self._decoded(start).removeprefix(codecs.BOM_UTF8), ended=not start)

    def readable(self) -> bool:
        return True

    def peek(self, size: int = CHUNK) -> bytes:
        """The next bytes, at most about `size`, which are still to be read."""
        while sum(map(len, self.ready)) < size and not self.done:
            self._read_on()
        return b"".join(self.ready)[:size]

    def read_line(self) -> bytes:
        """The next line that is not blank, with the lines that a quoted line break continues; empty at the end."""
        line = b""
        while True:
            while not self.ready and not self.done:
                self._read_on()
            text = bytes(self.ready.pop(0)) if self.ready else b""
            end = _line_end(text)
            end = len(text) if end < 0 else end
            line += text[:end]
            self.ready[:0] = [text[end:]] if text[end:] else []
            if len(line) > LONGEST_LINE:
                self._refuse_line()
            if not end or (line.strip() and not (self.quote and line.count(self.quote) % 2)):
                return line
            line = line if line.strip() else b""

    def read(self, size: int = -1) -> Bytes:
        """Some of the next bytes, in whole lines; none at the end."""
        while not self.ready and not self.done:
            self._read_on()
        if not self.ready:
            return b""
        part = self.ready.pop(0)
        if size is not None and 0 <= size < len(part):
            self.ready.insert(0, part[size:])
            part = part[:size]
        return part

    def _read_on(self) -> None:
        """Read the next bytes into place behind the beginning of a line that is there: they are not copied again."""
        if self.decode is not None:
            raw = self._raw(lambda: self.packed.read(CHUNK) or b"")
            self._take(self._decoded(raw), ended=not raw)
            return
        start = len(self.tail)
        block = bytearray(start + CHUNK)
        block[:start] = self.tail
        size = self._raw(lambda: self.packed.readinto(memoryview(block)[start:]) or 0)
        if size:
            self._cut(block, start, start + size)
        else:
            self._end(b"")

    def _take(self, part: bytes, ended: bool) -> None:
        """Add bytes of UTF-8, or the last ones."""
        if ended:
            self._end(part)
        else:
            self._cut(bytearray(self.tail + part), len(self.tail), len(self.tail) + len(part))

    def _cut(self, block: bytearray, start: int, end: int) -> None:
        """Cut what was read, which is in a block from `start` to `end` behind the tail, behind its last line break."""
        last = block.rfind(b"\n", start, end)
        last = block.rfind(b"\r", start, end) if last < 0 else last
        if last >= 0:
            self.ready.append(memoryview(block)[: last + 1])
        self.tail = bytes(memoryview(block)[last + 1 : end])
        if self.quote and block.find(self.quote, start, end) >= 0:
            # (counting with `bytes.count` takes longer than reading the file)
            read = np.frombuffer(block, np.uint8, end - start, start)
            self.quotes += int(np.count_nonzero(read == self.quote[0]))
        if len(self.tail) > LONGEST_LINE:
            self._refuse_line()

    def _decoded(self, raw: bytes) -> bytes:
        if self.decode is None:
            return raw
        try:
            return bytes(self.decode(raw, final=not raw).encode())
        except UnicodeError as problem:
            raise InputError(
                f"{self.name} is not a text file in {self.encoding}: {problem}; name its encoding, such as utf-8 or "
                f"latin-1",
                arguments=("encoding",),
            ) from None

    def _end(self, part: bytes) -> None:
        self.done = True
        self.tail += part
        if self.tail.strip():
            self.ended = False
            if self.whole:
                self.ready.append(self.tail)
            else:
                self.waiting = True
                self.quotes -= self.tail.count(self.quote) if self.quote else 0
        if self.quotes % 2:
            raise InputError(
                f"{self.name} is not a text file of rows, as its name says: a quoted entry has no end; close it, name "
                f"the quotes of the file, or, if it is being written, read it again when its last row is complete",
                arguments=("dialect",),
            )

    def _refuse_line(self) -> None:
        raise InputError(f"expected lines of at most {LONGEST_LINE} bytes in {self.name}, got a longer one")

    def _raw(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (OSError, ValueError, EOFError) as problem:
            raise InputError(f"cannot unpack {self.name}: {problem}; it is damaged, or not complete yet") from None

    def check_unchanged(self) -> None:
        """Raise an InputError if the file was written to since it was opened, unless it has just become longer."""
        now = _version(os.fstat(self.file.fileno()))
        if now[0] < self.opened[0] or (now[0] == self.opened[0] and now != self.opened):
            raise_changed(self.name)

    def check_end(self) -> None:
        """After the last line: check that the file is unchanged, and warn if that line has no line break."""
        self.check_unchanged()
        if not self.ended:
            wait = "it waits to be read until it does" if self.waiting else "look at it"
            warnings.warn(
                f"the last line of {self.name} does not end with a line break; if the file is being written or was cut "
                f"short, its last number may be incomplete: {wait}, or end the file with a line break",
                UserWarning,
                stacklevel=3,
            )

    def unfinished(self) -> str:
        """What to add to the error for a file without rows: that its only line is not complete yet, if so."""
        return " but for a line without a line break, which waits until it has one" if self.waiting else ""

    def close(self) -> None:
        self.file.close()
        super().close()


class _Bounded(io.RawIOBase):
    """The bytes that a file had when it was opened."""

    def __init__(self, source: TextSource) -> None:
        self.source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self.source.file.readinto(memoryview(buffer)[: self.source.left]) or 0
        self.source.left -= size
        return size

    def read(self, size: int = -1) -> bytes:
        source = self.source
        size = source.left if size is None or size < 0 else min(size, source.left)
        part = source.file.read(size) or b""
        source.left -= len(part)
        return part


def _decompressed(source: TextSource, compression: str | None) -> Any:
    plain = _Bounded(source)
    if compression is None:
        return plain
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(plain, mode="r"), compression)


def _decoder(encoding: str) -> Any:
    try:
        if codecs.lookup(encoding).name == "utf-8":
            return None
        return codecs.getincrementaldecoder(encoding)(errors="strict").decode
    except LookupError:
        raise InputError(f"expected the name of an encoding like utf-8 or latin-1, got {encoding!r:.40}") from None


def _line_end(text: bytes) -> int:
    """Where the first line ends, behind its line break; -1 if it does not."""
    ends = [i for i in (text.find(b"\n"), text.find(b"\r")) if i >= 0]
    if not ends:
        return -1
    first = min(ends)
    return first + 2 if text[first : first + 2] == b"\r\n" else first + 1


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
