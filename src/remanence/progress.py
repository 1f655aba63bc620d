"""Progress bars for long work, shown after two seconds and only on a terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any, TypeVar

from remanence.terminal_text import printable

T = TypeVar("T")

DELAY = 2.0  # seconds before a bar is shown


class _Bar:
    """A bar that may be advanced before it is shown, and shown or closed from different threads."""

    def __init__(self, description: str, total: int | None) -> None:
        self.description, self.total = description, total
        self.done = 0
        self.note = ""
        self.closed = False
        self.lock = Lock()
        self.progress: Any = None
        self.line: Any = None

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        with self.lock:
            if self.closed:  # (the work ended before the timer did)
                return
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self.line = self.progress.add_task(self.text(), total=self.total, completed=self.done)
            self.progress.start()

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        with self.lock:
            self.done += steps
            self.note = self.note if note is None else note
            if self.progress is not None:
                self.progress.update(self.line, completed=self.done, description=self.text())

    def text(self) -> str:
        return printable(f"{self.description}: {self.note}" if self.note else self.description)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            if self.progress is not None:
                self.progress.stop()


@contextmanager
def progress_bar(description: str, total: int | None = None, show: bool | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar; call `advance(steps)`, or `advance(steps, note)` to show a note as well.

    `show=None` shows a bar once the work has lasted two seconds, if standard error is a terminal; True shows it at
    once, False never.
    """
    bar = _Bar(description, total)
    timer: Timer | None = None
    if show:
        bar.show()
    elif show is None and sys.stderr is not None and sys.stderr.isatty():
        timer = Timer(DELAY, bar.show)
        timer.daemon = True
        timer.start()
    try:
        yield bar.advance
    finally:
        if timer is not None:
            timer.cancel()
        bar.close()


def track_progress(
    iterable: Iterable[T], description: str, total: int | None = None, show: bool | None = None
) -> Iterator[T]:
    """Iterate over the items with a progress bar; see `progress_bar` for `show`."""
    if total is None and isinstance(iterable, (list, tuple, range)):
        total = len(iterable)
    with progress_bar(description, total, show) as advance:
        for item in iterable:
            yield item
            advance(1)
