"""Arrays as contiguous bytes and a little metadata, from which they are restored bit for bit in the same memory layout.

axes    the order of the axes, where the array is not C-contiguous: products round differently in another layout
shape   the full shape of a broadcast array, whose repeated rows are written once
dtype   the dtype, where safetensors has no name for it (text, dates, other byte orders)

The size of a broadcast array is bounded by what is stored (`REPEATS`), so that a small file never needs much memory.
"""

import re
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError

DTYPES = {  # safetensors' names of dtypes
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
    "C64": "<c8",
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
REPEATS = 256  # how many times larger than what is stored the arrays of a file may be
LAST_CHARACTER = 0x10FFFF
DTYPE = re.compile(r"[<>|][biufcUSmM]\d{1,6}(\[\d{0,4}(Y|M|W|D|h|m|s|ms|us|ns)\])?")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name under which a dtype is stored; raises InputError if it is no number, boolean, date or text."""
    if dtype.kind not in "biufcUSmM" or not dtype.itemsize:
        raise InputError(f"expected numbers, booleans or text to store, got {dtype}")
    return dtype.str


def dtype_from(name: str) -> np.dtype[Any]:
    """The dtype of this name."""
    if not DTYPE.fullmatch(name):
        raise FileError(f"expected a dtype, got {name!r:.40}")
    try:
        return np.dtype(name)
    except TypeError:
        raise FileError(f"this machine has no dtype {name!r:.40}") from None


def scalar_from(name: str, digits: str) -> Any:
    """The scalar of this dtype with these bytes, in hexadecimal."""
    return checked(np.frombuffer(bytes.fromhex(digits), dtype_from(name))).reshape(())[()]


def checked(array: Array) -> Array:
    """The array; raises FileError if its bytes are no valid booleans or text, on which NumPy would fail later."""
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise FileError("expected booleans of 0 and 1, got other bytes")
    if array.dtype.kind == "U" and array.size:
        characters = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
        if characters.max() > LAST_CHARACTER:
            raise FileError("expected text, got numbers that are no characters")
    return array


def finite(array: Array) -> bool:
    """Whether all numbers are finite; repeated rows are checked once."""
    if array.dtype.kind not in "fc":
        return True
    once = array[tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)]
    return bool(np.isfinite(once).all())


def flattened(array: Array, repeats: bool = True) -> tuple[Array, dict[str, Any]]:
    """The array as a contiguous one of a dtype that safetensors knows, and the metadata to restore it.

    Without `repeats` a broadcast array is written out in full.
    """
    metadata: dict[str, Any] = {}
    if repeats and any(stride == 0 and n > 1 for stride, n in zip(array.strides, array.shape, strict=True)):
        metadata["shape"] = list(array.shape)
        array = array[tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)]
    if not array.flags.c_contiguous:
        axes = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
        if axes != list(range(array.ndim)):
            metadata["axes"] = axes
            array = array.transpose(axes)
    array = np.ascontiguousarray(array).reshape(array.shape)  # (ascontiguousarray gives a number an axis)
    if array.dtype.str not in DTYPE_NAMES:
        metadata["dtype"] = dtype_name(array.dtype)
        array = array.reshape(-1).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
    return array, metadata


def restored(array: Array, metadata: dict[str, Any]) -> Array:
    """The array that `flattened` was given; raises FileError if the metadata do not fit."""
    try:
        if "dtype" in metadata:
            dtype = dtype_from(metadata["dtype"])
            if array.dtype != np.uint8 or array.shape[-1] != dtype.itemsize:
                raise ValueError("another item size")
            array = checked(array.reshape(-1).view(dtype).reshape(array.shape[:-1]))
        if "axes" in metadata:
            if sorted(metadata["axes"]) != list(range(array.ndim)):
                raise ValueError("other axes")
            array = array.transpose(np.argsort(metadata["axes"]))
        if "shape" in metadata:
            array = np.broadcast_to(array, tuple(metadata["shape"]))
    except (TypeError, ValueError, IndexError, OverflowError) as problem:
        raise FileError(f"expected an array for {metadata}, got {array.dtype} {array.shape}: {problem}") from None
    return array
