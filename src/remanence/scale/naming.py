"""Errors on a worker name the partition they come from."""

from collections.abc import Iterator
from contextlib import contextmanager

from remanence.errors import InputError, NumericalError


@contextmanager
def naming(partition: str) -> Iterator[None]:
    """Re-raise errors of the library with the name of a partition in front."""
    try:
        yield
    except (InputError, NumericalError) as problem:
        kind = InputError if isinstance(problem, InputError) else NumericalError
        raise kind(f"{partition}: {problem}") from None
