"""Dask's scheduler and workers as storyframes runs them: they talk to each other only.

None of them serves a page. Dask's own open an HTTP server even without a dashboard, on all interfaces in a worker, and
it answers everybody.
"""

from __future__ import annotations

from typing import Any

import distributed
from distributed.core import Status

STARTS = 5  # of a worker's process, until it is given up


class Scheduler(distributed.Scheduler):
    """A scheduler without an HTTP server."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Start no HTTP server."""

    def identity(self, n_workers: int = -1) -> dict[str, Any]:
        """How the scheduler describes itself; Prefect expects a port of the dashboard in it, and gets 0."""
        identity = super().identity(n_workers)
        return identity | {"services": {"dashboard": 0}}


class Worker(distributed.Worker):
    """A worker without an HTTP server."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Start no HTTP server."""


class Nanny(distributed.Nanny):
    """Starts another process where one was killed while it started; Dask's own gives up, and with it the whole run."""

    async def instantiate(self) -> Status:
        """Start the worker's process; gives its status then."""
        for _ in range(STARTS):
            status = await super().instantiate()
            if status == Status.running:
                break
        return status
