"""Check what a network returns for a batch, and report failures of its forward pass as InputError."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from remanence.errors import InputError


@contextmanager
def as_input_error(x: Tensor) -> Iterator[None]:
    """Re-raise torch's errors about inputs that the network cannot process as InputError."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, TypeError) as error:
        raise InputError(
            f"expected a network that accepts samples of shape {tuple(x.shape[1:])}, also one at a time, "
            f"got: {str(error).splitlines()[0]}"
        ) from error


def check_output(found: Any, n: int) -> Tensor:
    """Return the output of a network for n samples if its shape is (n, c), else raise InputError."""
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != n:
        got = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"expected the network to return a tensor (n, c) for n samples, got {got} for n = {n}; "
            f"end it with torch.nn.Flatten(), or take one of its outputs"
        )
    return found
