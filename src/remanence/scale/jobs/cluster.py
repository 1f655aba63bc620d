"""A cluster for a command: processes on this machine, or a scheduler that runs elsewhere."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from remanence.errors import FileError, InputError, MissingDependency
from remanence.validation import check_count

QUIET = 50  # the level of Dask's log messages that are shown, above that of errors: those reach the caller


@contextmanager
def open_client(workers: int | None = None, address: str | None = None) -> Iterator[Any]:
    """A client of a cluster of `workers` processes of one thread each, or of the scheduler at an address."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingDependency(
            "a cluster needs distributed, which is not installed; pip install 'remanence[scale]'"
        ) from None
    if (workers is None) == (address is None):
        got = "neither" if workers is None else "both"
        raise InputError(
            f"expected workers on this machine or the address of a cluster, got {got}",
            arguments=("workers", "cluster"),
        )
    if address is not None:
        with _connected(Client, address) as client:
            yield client
        return
    count = check_count(workers, "workers")
    local = LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=QUIET
    )
    with local, Client(local, set_as_default=False) as client:
        yield client


@contextmanager
def _connected(client: Any, address: str) -> Iterator[Any]:
    try:
        found = client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise FileError(
            f"cannot connect to a Dask scheduler at {address}: {problem}; expected an address like tcp://host:8786",
            arguments=("cluster",),
        ) from None
    with found:
        yield found


def dashboard(client: Any) -> str | None:
    """The address of Dask's dashboard; None if it is not installed."""
    from importlib.util import find_spec

    return client.dashboard_link if find_spec("bokeh") is not None else None


def threads_of(client: Any) -> int:
    """The threads of all workers there are now, at least one."""
    return max(1, int(sum(client.nthreads().values())))


def result_of(future: Any, client: Any, name: str) -> Any:
    """The result of a task, which is about the file `name`."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        raise InputError(
            f"expected workers that can hold what {name} needs, but all that tried it died; give them more memory"
        ) from None
    except Exception as problem:
        if client.status == "running" and not future.cancelled():
            raise
        raise FileError(
            f"the cluster was lost while it read {name} ({type(problem).__name__}: {problem}); run the same again: "
            f"what was finished is kept"
        ) from None


def in_order(
    client: Any, count: int, submit: Callable[[int], Any], name: Callable[[int], str], more: int | None = None
) -> Iterator[Any]:
    """The results of `count` tasks in their order; `more` than there are threads are begun before they are needed."""
    begun: dict[int, Future[Any]] = {}
    try:
        for k in range(count):
            threads = threads_of(client)
            for j in range(k, min(count, k + threads + (3 * threads if more is None else more))):
                if j not in begun:
                    begun[j] = submit(j)
            found = result_of(begun[k], client, name(k))
            del begun[k]  # (its result leaves the worker)
            yield found
    finally:
        client.cancel(list(begun.values())) if begun and client.status == "running" else None
