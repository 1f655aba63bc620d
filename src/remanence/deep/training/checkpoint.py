"""Checkpoint files of a training run: everything it needs to continue exactly where it stopped.

    32 bytes     SHA-256 of the rest                                                        (C1)
    the rest     nested dicts of tensors and plain values, as torch.save writes them

Files are read with torch's restricted reader (weights_only), which builds tensors and plain values and runs no code.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from remanence.errors import FileError, InputError
from remanence.files import remove_unfinished, write_atomically
from remanence.hashing import new_digest

FORMAT = 1


def write_checkpoint(path: Path, state: Mapping[str, Any], verify: bool = False) -> None:
    """Replace the checkpoint atomically; with `verify`, first make sure that the state can be read back."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    content = buffer.getvalue()
    if verify:
        try:
            _parsed(content)
        except Exception as problem:
            raise InputError(
                "expected an optimizer, scheduler and guard whose states are tensors and plain values, got one that "
                f"requires pickle ({str(problem).splitlines()[0]}); train without checkpoint="
            ) from None
    write_atomically(path, [new_digest(content).digest(), content])  # (C1)


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return the state in the file, or None if there is no file; raise FileError if it is damaged."""
    remove_unfinished(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise FileError(f"cannot read the checkpoint {path}: {problem.strerror}; name another file") from None
    if new_digest(content[32:]).digest() != content[:32]:
        raise FileError(
            f"{path} is not a checkpoint, or it is damaged: its checksum does not match its content; "
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
    """Raise FileError if the checkpoint belongs to another run, and say what differs."""
    different = [name for name in here if there.get(name) != here[name]]
    if different:
        differences = "; ".join(f"{name} was {there.get(name)!r} and is {here[name]!r}" for name in different[:3])
        raise FileError(
            f"{path} is the checkpoint of another run: {differences}. Remove it, name another file, or train as before"
        )


def _parsed(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
