"""How a task runs on a worker: with one thread, as Dask runs a task per thread, and errors name their partition."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from remanence.errors import InputError, NumericalError
from remanence.parallel import threads


@contextmanager
def naming(partition: str) -> Iterator[None]:
    """Re-raise errors of the library with the name of a partition in front; fold rows with this thread alone."""
    try:
        with threads(1):
            yield
    except (InputError, NumericalError) as problem:
        if PurePath(partition).name in str(problem):
            raise
        kind = InputError if isinstance(problem, InputError) else NumericalError
        raise kind(f"{partition}: {problem}") from None
