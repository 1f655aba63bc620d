"""Where delayed values are computed: a client of a cluster, or the threads of this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from remanence.errors import InputError

MARK = ": "  # in the names of tasks, before that of the partition


def find_client(client: Any) -> Any:
    """The client given, else the active one, else None: Dask's threads."""
    if client is None:
        try:
            from distributed import default_client

            active = default_client()
        except (ImportError, ValueError):
            return None
        return active if active.status == "running" else None  # (one that never connected would wait for ever)
    if not hasattr(client, "compute"):
        raise InputError(f"expected a dask.distributed Client or None as client, got {type(client).__name__}")
    if client.status != "running":
        raise InputError(f"expected a running client, got one that is {client.status}; open a new Client")
    return client


def computed(value: Any, client: Any, finish: Callable[[Any], Any]) -> Any:
    """`finish` of a delayed value; with an asynchronous client a coroutine of it."""
    client = find_client(client)
    if client is None:
        return finish(value.compute(scheduler="threads"))
    if client.asynchronous:

        async def later() -> Any:
            with explained():
                found = await client.compute(value)
            return finish(found)

        return later()
    with explained():
        found = client.compute(value).result()
    return finish(found)


@contextmanager
def explained() -> Iterator[None]:
    """Say what to do where workers died of a task; the name of a task of ours ends in that of its partition."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as problem:
        raise InputError(
            f"expected workers that can hold what {str(problem.task).rpartition(MARK)[2]} needs, but all that tried it "
            f"died; give them more memory, or make partitions smaller"
        ) from None
