"""The options for a cluster, and the cluster they stand for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

Workers = Annotated[
    int | None,
    typer.Option(help="Read and compute in so many processes on this machine (needs Dask, the extra 'scale')."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Read and compute on the workers of a Dask scheduler, such as tcp://host:8786."
    ),
]


@contextmanager
def opened_cluster(workers: int | None, address: str | None) -> Iterator[Any]:
    """A client of the cluster; None if there is to be none. The address of Dask's dashboard is printed."""
    if workers is None and address is None:
        yield None
        return
    from remanence.scale.jobs.cluster import dashboard, open_client

    with open_client(workers, address) as client:
        link = dashboard(client)
        if link is not None:
            typer.echo(f"dashboard: {link}", err=True)
        yield client
