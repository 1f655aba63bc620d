"""A progress bar that shows the rows per second."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from remanence.errors import FileError, InputError, MissingDependency, NumericalError
from remanence.progress import progress_bar


class Meter:
    """Shows the file that is read and the rows per second on a progress bar."""

    def __init__(self, advance: Callable[..., None]) -> None:
        self.advance, self.started, self.rows = advance, time.monotonic(), 0

    def __call__(self, name: str, rows: int) -> None:
        self.rows += rows
        rate = self.rows / max(time.monotonic() - self.started, 1e-9)
        self.advance(0, f"{name}, {rate:,.0f} rows/s")


@contextmanager
def metered(what: str, files: int) -> Iterator[tuple[Callable[..., None], Meter]]:
    """A progress bar over files, and a meter that counts rows."""
    with progress_bar(what, files) as advance:
        yield advance, Meter(advance)


def for_each_file(
    paths: Iterable[Any],
    work: Callable[[Any, Meter], object],
    advance: Callable[..., None],
    meter: Meter,
    skip: Any = (),
) -> Exception | None:
    """Call `work` for every file; the first error ends it and is returned, so that the files before can be reported.

    Errors of the classes `skip` are warnings.
    """

    def each() -> None:
        for path in paths:
            try:
                work(path, meter)
            except skip as problem:
                warnings.warn(f"{problem} (skipped)", UserWarning, stacklevel=4)
            advance(1)

    return error_of(each)


def error_of(work: Callable[[], None]) -> Exception | None:
    """Call `work` and return the error it raises, so that what it has done before can be reported."""
    try:
        work()
    except (InputError, FileError, MissingDependency, NumericalError) as problem:
        return problem
    return None
