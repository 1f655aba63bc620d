"""Where delayed values are computed: a client of a cluster, or the threads of this process."""

from collections.abc import Callable
from typing import Any

from remanence.errors import InputError


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
            return finish(await client.compute(value))

        return later()
    return finish(client.compute(value).result())
