"""Dask's scheduler and workers as storyframes runs them: they talk to each other only.

None of them serves a page. Dask's own open an HTTP server even without a dashboard, on all interfaces in a worker, and
it answers everybody.
"""

from __future__ import annotations

import math
import pickle
from typing import Any, Literal

import distributed
from distributed.core import Status
from distributed.scheduler import WorkerState

from storyframes.store.storage.processes import keep_private

STARTS = 5  # of a worker's process, until it is given up
_MOST_OF_A_JOB = 0.8  # of its walltime: its start takes time as well, and another job would hardly give more


class JobTooShortError(Exception):
    """A task had as much time as a job may take, in one job or in several that ended, and is not done."""


class Scheduler(distributed.Scheduler):
    """A scheduler without an HTTP server, which counts a worker's death against what the worker did at that time.

    Dask's own counts it against all that waits there as well, begun or not.

    Args:
        walltime_s: seconds after which a batch system ends a worker's job.
    """

    def __init__(self, *arguments: Any, walltime_s: float = math.inf, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._walltime_s = walltime_s
        self._spent_s: dict[Any, float] = {}  # by task, what workers that died had spent on it

    async def remove_worker(
        self, address: str, *, stimulus_id: str, expected: bool = False, close: bool = True
    ) -> Literal["OK", "already-removed"]:
        """Remove a worker; what waited for it goes to others, what it did is tried again a few times."""
        worker = self.workers.get(self.coerce_address(address))
        if worker and not expected:
            self._blame(worker, stimulus_id)
        return await super().remove_worker(address, stimulus_id=stimulus_id, expected=expected, close=close)

    def _blame(self, worker: WorkerState, stimulus_id: str) -> None:
        # What it did is known as of its last heartbeat; what waited begins by priorities, which may be equal.
        ranked = sorted(worker.processing, key=lambda task: (task not in worker.executing, task.priority or ()))
        begun = {*ranked[: worker.nthreads], *worker.executing}
        for task in ranked:
            if task not in begun:
                task.suspicious -= 1  # Dask adds one to all
            ran_s = worker.executing.get(task, 0.0)
            spent_s = self._spent_s[task.key] = self._spent_s.get(task.key, 0.0) + ran_s
            if ran_s > _MOST_OF_A_JOB * self._walltime_s or spent_s > self._walltime_s:
                error = JobTooShortError(
                    f"jobs ended after {spent_s:.0f} s of work on it, and a job may take {self._walltime_s:.0f} s: "
                    "give the cluster's file a longer walltime"
                )
                failure = {"exception": pickle.dumps(error), "cause": task.key, "worker": worker.address}
                self.transitions(self.transition(task.key, "erred", stimulus_id, **failure), stimulus_id)

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Start no HTTP server."""

    def identity(self, n_workers: int = -1) -> dict[str, Any]:
        """How the scheduler describes itself; Prefect expects a port of the dashboard in it, and gets 0."""
        identity = super().identity(n_workers)
        return identity | {"services": {"dashboard": 0}}


class Worker(distributed.Worker):
    """A worker without an HTTP server, which holds recordings and words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        keep_private()
        super().__init__(*arguments, **options)

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
