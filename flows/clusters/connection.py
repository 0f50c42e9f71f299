"""Connecting to a Dask scheduler: its address and certificates, and waiting for its workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows.clusters.needs import ClusterError, Needs, check_needs

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security


@dataclass(frozen=True)
class Connection:
    """A scheduler, and what one needs to be let in.

    Attributes:
        address: ``tls://host:port``.
        security: the certificates; without them a scheduler that lets everybody in.
    """

    address: str
    security: Security | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What a Dask client is made with, besides the address."""
        return {"security": self.security, "set_as_default": False}

    def client(self, **options: Any) -> Client:
        """A client of it, to be closed by the caller.

        Raises:
            OSError, ValueError: nobody answers there, or not with these certificates.
        """
        from distributed import Client

        return Client(self.address, **self.options, **options)


def wait_for_workers(connection: Connection, needs: Sequence[Needs], wait_s: float) -> None:
    """Wait until the scheduler has a worker for every need.

    Raises:
        ClusterError: it cannot be reached, or has none in time.
    """
    from distributed.comm.core import FatalCommClosedError

    deadline = time.monotonic() + wait_s
    try:
        client = connection.client(timeout=min(max(wait_s, 1), 30))
    except FatalCommClosedError:
        raise ClusterError(
            f"{connection.address} does not know these certificates: are they of another cluster?"
        ) from None
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"there is no Dask scheduler at {connection.address} ({type(error).__name__})") from None
    with client:
        while True:
            workers = [
                worker.get("resources", {}) for worker in client.scheduler_info(n_workers=-1)["workers"].values()
            ]
            try:
                check_needs(needs, workers)
            except ClusterError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return
