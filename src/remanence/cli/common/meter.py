"""A progress bar that shows the rows per second."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
