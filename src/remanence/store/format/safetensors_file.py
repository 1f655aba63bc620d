"""The bytes of a model file: safetensors, with a checksum over all of them.

    8 bytes      the length n of the header
    n bytes      {"__metadata__":{"sha256":"…", more metadata}, "an array":{dtype, shape, place}, …}, JSON in ASCII
    the rest     the arrays, end to end
    sha256 = SHA-256 of the whole file with 64 zeros in the place of the checksum                              (S)

The checksum stands at a fixed place, so that it is checked before anything else is parsed, and it covers every bit of
the file. The same content always gives the same bytes. Nothing in a file can run code: there is no pickle.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError
from remanence.files import kind_of_file
from remanence.hashing import hash_bytes
from remanence.store.format.arrays import DTYPE_NAMES, DTYPES, checked

BEFORE = b'{"__metadata__":{"sha256":"'  # what every header begins with; then the checksum
DIGITS = 64
PLACE = slice(8 + len(BEFORE), 8 + len(BEFORE) + DIGITS)
LONGEST = 100_000_000  # bytes of a header that readers of safetensors accept

OTHER_FORMATS = (  # how other files begin
    (b"\x80", "a pickle, which could run code and is never loaded"),
    (b"PK\x03\x04", "a zip archive (NPZ, torch and spreadsheets are such)"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet file"),
    (b"\x1f\x8b", "a gzip file"),
)


class Content(NamedTuple):
    """What a file holds: metadata and arrays, by name."""

    metadata: dict[str, str]
    arrays: dict[str, Array]


def packed(metadata: Mapping[str, str], arrays: Mapping[str, Array]) -> list[Any]:
    """The file as buffers to be written one after the other; the arrays must be C-contiguous."""
    header: dict[str, Any] = {"__metadata__": {"sha256": "0" * DIGITS, **metadata}}
    buffers: list[Any] = []
    end = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": DTYPE_NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
        buffers.append(array.reshape(-1).view(np.uint8))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % 8)  # so that the arrays are aligned
    if len(text) > LONGEST:
        raise FileError(f"expected at most {LONGEST} bytes of metadata in a file, got {len(text)}; keep fewer notes")
    head = bytearray(len(text).to_bytes(8, "little") + text)
    head[PLACE] = hash_bytes(head, *buffers).encode("ascii")  # (S)
    return [head, *buffers]


def parse(content: bytes) -> Content:
    """What a file of these bytes holds; raises FileError unless every bit is as it was written."""
    text = _header(content)
    if not text.startswith(BEFORE) or len(text) < len(BEFORE) + DIGITS:
        raise FileError(_foreign(content, text))
    found = hash_bytes(content[: PLACE.start], b"0" * DIGITS, memoryview(content)[PLACE.stop :])
    if found.encode("ascii") != content[PLACE]:
        raise FileError(_damage(content, text))
    import safetensors

    try:
        metadata = json.loads(text)["__metadata__"]
        flat = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
        arrays = {n: _array(v, len(content)) for n, v in flat}
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as problem:
        raise FileError(
            f"expected arrays that safetensors can read, got {problem}; a newer version of it may read them"
        ) from None
    return Content(metadata, arrays)


def _array(flat: dict[str, Any], size: int) -> Array:
    array = checked(np.frombuffer(flat["data"], DTYPES[flat["dtype"]]).reshape(flat["shape"]))
    if not array.size and max(array.shape) > size:  # it takes no bytes, but growing it would
        raise ValueError(f"an empty array of shape {array.shape} in a file of {size} bytes")
    return array


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata alone, without the arrays and without checking the checksum: quick for files of any size."""
    with _readable(path) as file:
        start = file.read(8)
        content = start + file.read(min(int.from_bytes(start, "little"), LONGEST))
    text = _header(content)
    if not text.startswith(BEFORE):
        raise FileError(_foreign(content, text))
    try:
        metadata: dict[str, str] = json.loads(text)["__metadata__"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FileError("it is damaged: its header cannot be read; restore it from a copy") from None
    if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
        raise FileError("it is damaged: its metadata are no text; restore it from a copy")
    return metadata


def read_bytes(path: Path) -> bytes:
    """All bytes of a model file; of any other file only its beginning, enough to say what it is."""
    with _readable(path) as file:
        start: bytes = file.read(8 + len(BEFORE))
        return start + file.read(-1 if start[8:] == BEFORE else LONGEST)


@contextmanager
def _readable(path: Path) -> Iterator[BinaryIO]:
    """The open file; raises FileError if it cannot be read."""
    found = kind_of_file(path)
    if found:
        hint = "name the model file inside it" if found == "a folder" else "name a plain file"
        raise FileError(f"it is {found}; {hint}")
    try:
        with path.open("rb") as file:
            yield file
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError("there is no such file") from None
    except OSError as problem:
        raise FileError(f"{problem.strerror or problem}") from None


def _header(content: bytes) -> bytes:
    """The header; raises FileError if a model file cannot begin like this."""
    if not content:
        raise FileError("it is empty; was writing it cut short?")
    for start, what in OTHER_FORMATS:
        if content.startswith(start) and content[8:9] != b"{":
            raise FileError(f"it is {what}; expected a model file")
    size = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + size]
    if len(content) < 8 or len(text) < size:
        if content[8:].startswith(BEFORE[: max(len(content) - 8, 1)]):
            raise FileError(f"it is cut short: its header ends after {len(text)} of {size} bytes; restore it")
        raise FileError("it is no model file (nor any safetensors file); rm.save writes model files")
    return text


def _foreign(content: bytes, text: bytes) -> str:
    """Why a file with another beginning is no model file."""
    try:
        tensors = json.loads(text)
        if isinstance(tensors, dict) and all(isinstance(v, dict) for v in tensors.values()):
            return "it is a safetensors file that Remanence did not write, or its header was changed"
    except (ValueError, RecursionError):
        pass
    return "it is no model file, or its beginning is damaged; rm.save writes model files"


def _damage(content: bytes, text: bytes) -> str:
    """Why the checksum is wrong, as far as one can tell."""
    try:
        places = [v["data_offsets"][1] for k, v in json.loads(text).items() if k != "__metadata__"]
        wanted, found = max(places, default=0), len(content) - 8 - len(text)
        if found < wanted:
            return f"it is cut short: {found} of {wanted} bytes of arrays are there; restore it from a copy"
        if found > wanted:
            return f"it has {found - wanted} bytes too many at its end; restore it from a copy"
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError):
        pass
    return "it is damaged: its checksum does not fit its content; restore it from a copy"
