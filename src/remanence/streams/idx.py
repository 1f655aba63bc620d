"""Images in idx files, the format of MNIST: a folder with training and test images and their labels.

0 0 8 n | n lengths, big-endian | bytes          (plain or gzipped)
"""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError
from remanence.hashing import new_digest

MAX_RATIO = 256  # unpacked bytes per byte of a gzipped file, for files that unpack to more than the next
SMALL = 1 << 26
IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def read_folder(folder: Path) -> tuple[Array, Array, Array, Array, str]:
    """(X, y, X_test, y_test) with pixels in [0, 1], one image per row, and a fingerprint of the files."""
    digest = new_digest()
    arrays = []
    for name in IDX_FILES:
        raw = _bytes(_find(folder, name))
        digest.update(raw)
        arrays.append(_array(raw, folder / name))
    X, y, X_test, y_test = arrays
    for images, labels, part in ((X, y, "training"), (X_test, y_test, "test")):
        if images.ndim < 2 or labels.ndim != 1 or len(images) != len(labels) or not len(images):
            raise FileError(
                f"expected {part} images and as many labels in {folder}, got {images.shape} and {labels.shape}; "
                "download the files again"
            )
    return _rows(X), y.astype(int), _rows(X_test), y_test.astype(int), digest.hexdigest()


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileError(
        f"expected the file {name} (or {name}.gz) in {folder}, found none; get it with `make data`, or name the "
        "folder that holds it",
        arguments=("data",),
    )


def _bytes(path: Path) -> bytes:
    try:
        most = max(MAX_RATIO * path.stat().st_size, SMALL)
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            raw = file.read(most + 1)
    except (OSError, EOFError, zlib.error, MemoryError) as problem:
        raise FileError(f"expected an idx file, {path} cannot be read ({problem}); download it again") from None
    if len(raw) > most:
        raise FileError(
            f"expected an idx file, {path} unpacks to more than {MAX_RATIO} times its size; download it again"
        )
    return raw


def _array(raw: bytes, path: Path) -> Array:
    axes = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    shape = tuple(np.frombuffer(raw, ">u4", axes, 4).tolist()) if axes and len(raw) >= 4 + 4 * axes else ()
    if not shape or len(raw) != 4 + 4 * axes + math.prod(shape):
        raise FileError(
            f"expected an idx file of bytes, {path} has {len(raw)} bytes and shape {shape}; download it again"
        )
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _rows(images: Array) -> Array:
    rows: Array = images.reshape(len(images), -1) / 255.0
    return rows
