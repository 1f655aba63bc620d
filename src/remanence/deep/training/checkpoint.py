"""A training run on disk: everything it needs to go on exactly where it was stopped.

    32 bytes     SHA-256 of the rest                                                        (C1)
    the rest     nested dicts of tensors and plain values, as torch.save writes them

It is read with torch's restricted reader, which can build tensors and plain values and run nothing.
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from remanence.errors import FileError, InputError
from remanence.files import remove_unfinished, write_atomically

FORMAT = 1


def write_checkpoint(path: Path, state: Mapping[str, Any], verify: bool = False) -> None:
    """Put the state in the place of the old one, whole or not at all; `verify` makes sure it can be read."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    content = buffer.getvalue()
    if verify:
        try:
            _parsed(content)
        except Exception as problem:
            raise InputError(
                "expected an optimizer, scheduler and guard whose states are tensors and plain values, got one that "
                f"only pickle could store ({str(problem).splitlines()[0]}); train without checkpoint="
            ) from None
    write_atomically(path, [hashlib.sha256(content).digest(), content])  # (C1)


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """The state on disk, None if there is none; a damaged file is refused."""
    remove_unfinished(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise FileError(f"cannot read the checkpoint {path}: {problem.strerror}; name another file") from None
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        raise FileError(
            f"{path} is no checkpoint, or it is damaged: its checksum does not fit its content; "
            "remove it to train from the beginning, or name another file"
        )
    try:
        state: dict[str, Any] = _parsed(content[32:])
    except Exception as problem:
        raise FileError(f"cannot read the checkpoint {path}: {problem}") from None
    if state.get("format") != FORMAT:
        raise FileError(f"{path} is a checkpoint of format {state.get('format')}, expected {FORMAT}; remove it")
    return state


def check_same_run(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another run, and say what is different."""
    different = [name for name in here if there.get(name) != here[name]]
    if different:
        says = "; ".join(f"{name} was {there.get(name)!r} and is {here[name]!r}" for name in different[:3])
        raise FileError(
            f"{path} is the checkpoint of another run: {says}. Remove it, name another file, or train as before"
        )


def _parsed(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
