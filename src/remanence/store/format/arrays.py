"""An array as bytes in a row and a few words, so that it comes back with every bit and lying in memory as it did.

axes    which axis is which, where the array does not lie row by row: products round differently elsewhere
shape   the full shape, where rows are one and the same memory (a broadcast): they are written once
dtype   the kind of element, where safetensors has no word for it (text, dates, other byte orders)

What a broadcast stands for is bounded by what is stored (`REPEATS`), so that a small file never asks for much memory.
"""

import re
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.errors import FileError, InputError

WORDS = {  # safetensors' words for kinds of elements
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
WORD_OF = {dtype: word for word, dtype in WORDS.items()}
REPEATS = 256  # numbers that stored ones may stand for, on the average of a file
LAST_CHARACTER = 0x10FFFF
KIND = re.compile(r"[<>|][biufcUSmM]\d{1,6}(\[\d{0,4}(Y|M|W|D|h|m|s|ms|us|ns)\])?")


def kind_of(dtype: np.dtype[Any]) -> str:
    """The word for a kind of element; refused where it is no number, truth, date or text."""
    if dtype.kind not in "biufcUSmM" or not dtype.itemsize:
        raise InputError(f"expected numbers, truths or text to store, got {dtype}")
    return dtype.str


def kind_from(word: str) -> np.dtype[Any]:
    """The kind of element behind a word."""
    if not KIND.fullmatch(word):
        raise FileError(f"expected a kind of element, got {word!r:.40}")
    try:
        return np.dtype(word)
    except TypeError:
        raise FileError(f"this machine has no elements of kind {word!r:.40}") from None


def scalar_from(word: str, digits: str) -> Any:
    """The one element of this kind that these hexadecimal digits are the bytes of."""
    return checked(np.frombuffer(bytes.fromhex(digits), kind_from(word))).reshape(())[()]


def checked(array: Array) -> Array:
    """The array; refused where its bytes are no truths or no text, which NumPy would stumble over later."""
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise FileError("expected truths of 0 and 1, got other bytes")
    if array.dtype.kind == "U" and array.size:
        characters = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
        if characters.max() > LAST_CHARACTER:
            raise FileError("expected text, got numbers that are no characters")
    return array


def finite(array: Array) -> bool:
    """Whether all numbers are finite; a broadcast is looked at once."""
    if array.dtype.kind not in "fc":
        return True
    once = array[tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)]
    return bool(np.isfinite(once).all())


def flattened(array: Array, repeats: bool = True) -> tuple[Array, dict[str, Any]]:
    """The array as one that lies row by row in a kind safetensors knows, and the words that bring it back.

    Without `repeats` a broadcast is written out in full.
    """
    words: dict[str, Any] = {}
    if repeats and any(stride == 0 and n > 1 for stride, n in zip(array.strides, array.shape, strict=True)):
        words["shape"] = list(array.shape)
        array = array[tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)]
    if not array.flags.c_contiguous:
        axes = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
        if axes != list(range(array.ndim)):
            words["axes"] = axes
            array = array.transpose(axes)
    array = np.ascontiguousarray(array).reshape(array.shape)  # (ascontiguousarray gives a number an axis)
    if array.dtype.str not in WORD_OF:
        words["dtype"] = kind_of(array.dtype)
        array = array.reshape(-1).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
    return array, words


def restored(array: Array, words: dict[str, Any]) -> Array:
    """The array that `flattened` took apart; refused where the words do not fit it."""
    try:
        if "dtype" in words:
            dtype = kind_from(words["dtype"])
            if array.dtype != np.uint8 or array.shape[-1] != dtype.itemsize:
                raise ValueError("elements of another size")
            array = checked(array.reshape(-1).view(dtype).reshape(array.shape[:-1]))
        if "axes" in words:
            if sorted(words["axes"]) != list(range(array.ndim)):
                raise ValueError("the axes are others")
            array = array.transpose(np.argsort(words["axes"]))
        if "shape" in words:
            array = np.broadcast_to(array, tuple(words["shape"]))
    except (TypeError, ValueError, IndexError, OverflowError) as problem:
        raise FileError(f"an array of {array.dtype} {array.shape} cannot be {words}: {problem}") from None
    return array
