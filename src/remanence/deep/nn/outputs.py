"""Check what a network returns for a batch, and report failures of its forward pass as InputError."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from remanence.errors import InputError


@contextmanager
def as_input_error(x: Tensor) -> Iterator[None]:
    """What torch says of a network that cannot run on these inputs, as a refusal of them."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, TypeError) as error:
        raise InputError(
            f"expected a network that answers samples of shape {tuple(x.shape[1:])}, one by one if asked to, "
            f"got: {str(error).splitlines()[0]}"
        ) from error


def check_output(found: Any, n: int) -> Tensor:
    """The answer of a network to n samples, if it is (n, c)."""
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != n:
        got = f"a tensor with axes {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"expected the network to answer n samples with a tensor (n, c), got {got} for n = {n}; "
            f"end it with torch.nn.Flatten(), or take one of its outputs"
        )
    return found
