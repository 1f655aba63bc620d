"""How a task runs on a worker: with one thread, within the worker's memory, and errors name their partition."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from remanence.errors import InputError, NumericalError
from remanence.parallel import threads
from remanence.parallel.blas_threads import one_thread
from remanence.tables.pages.stripes import read_within

SHARE = 16  # of a worker's memory, what a thread may hold of the undecoded pages of a file


@contextmanager
def as_task() -> Iterator[None]:
    """Compute with this thread alone, as Dask runs a task per thread, and read files within the worker's memory.

    That holds for products by BLAS too: with several threads they have other bits, and wait for each other's.
    """
    try:
        from distributed import get_worker

        worker = get_worker()
        memory = (worker.memory_manager.memory_limit or float("inf")) / (SHARE * worker.state.nthreads)
    except (ImportError, ValueError):  # (Dask's own threads, in this process)
        memory = float("inf")
    with threads(1), one_thread, read_within(memory):
        yield


@contextmanager
def naming(partition: str) -> Iterator[None]:
    """Run as a task whose errors have the name of a partition in front."""
    try:
        with as_task():
            yield
    except (InputError, NumericalError) as problem:
        if PurePath(partition).name in str(problem):
            raise
        kind = InputError if isinstance(problem, InputError) else NumericalError
        raise kind(f"{partition}: {problem}") from None
