"""Admitting workers to a run: each is asked whether it can do the work, those that are there and those that join later.

Dask has a new worker run the set-up of a plug-in before it hears of any task. One that cannot do the work leaves then.
"""

from __future__ import annotations

import asyncio
import pickle
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from distributed import Worker, WorkerPlugin
from distributed.core import Status

from flows.clusters.connection import ClusterError, Connection
from flows.clusters.installation import Installation

Ask = Callable[[Worker], list[str]]
"""Runs in a worker; gives in words why it cannot do the work, nothing where it can."""


def plug_in_problems(installation: Installation, question: bytes, worker: Worker) -> list[str]:
    """Why this worker cannot do a plug-in's work; for :func:`flows.clusters.admission.admit_workers`.

    Args:
        question: a pickled function without arguments that gives such reasons; only a worker that has the plug-in can
            read it.
    """
    problems = installation.differences_here()
    try:
        ask = pickle.loads(question)  # noqa: S301 - the flow packed it
    except ImportError as error:
        return problems or [f"it lacks {error.name}: install the same as the flow's there"]
    return problems + list(ask())


@contextmanager
def admit_workers(connection: Connection, ask: Ask, warn: Callable[[str], None]) -> Iterator[None]:
    """Ask the workers that are there, and while the block runs each that joins.

    Args:
        ask: what they are asked; sent to them.
        warn: called with each problem of a worker that joined later, once; from a thread of its own.

    Raises:
        ClusterError: a worker that is there cannot do the work; with every problem and who has it.
    """
    with connection.client() as client:
        answers = client.run(_answer, ask, on_error="return")
        refuse({worker: answer[1] if isinstance(answer, tuple) else answer for worker, answer in answers.items()})
        name = f"storyframes-{secrets.token_hex(8)}"
        warned: set[str] = set()

        def refused(event: tuple[float, tuple[str, list[str]]]) -> None:
            worker, problems = event[1]
            for problem in problems:
                if problem not in warned:
                    warned.add(problem)
                    warn(f"a worker that joined takes no work: {problem} ({worker})")

        client.subscribe_topic(name, refused)
        admitted = frozenset(answer[0] for answer in answers.values())
        client.register_plugin(_Admission(name, ask, admitted, client.id), name=name)
        try:
            yield
        finally:
            with suppress(Exception):  # the scheduler is gone, and the plug-in with it
                client.unregister_worker_plugin(name)


def refuse(answers: Mapping[str, object]) -> None:
    """Raise what the workers answered, each problem once, with the workers that have it."""
    problems: dict[str, list[str]] = {}
    for worker, answer in sorted(answers.items()):
        for problem in answer if isinstance(answer, list) else [_not_asked(answer)]:
            problems.setdefault(problem, []).append(worker)
    if problems:
        lines = [f"  {problem} ({_shown(workers)})" for problem, workers in problems.items()]
        raise ClusterError("\n".join(["this cluster's workers cannot do the work:", *lines]))


def _not_asked(answer: object) -> str:
    return f"it cannot be asked: {type(answer).__name__} (has it another version of storyframes?)"


def _shown(workers: list[str]) -> str:
    return workers[0] if len(workers) == 1 else f"{workers[0]} and {len(workers) - 1} more"


def _answer(ask: Ask, dask_worker: Worker) -> tuple[str, list[str]]:
    """Which process this is, and why it cannot do the work."""
    return dask_worker.id, ask(dask_worker)


class _Admission(WorkerPlugin):
    """Lets a worker that joins do the run's work, or makes it leave.

    Args:
        topic: of the events that the run receives.
        ask: see :data:`Ask`.
        admitted: the processes that were asked already.
        client: of the run; where the scheduler has lost it, the run has ended without removing the plug-in.
    """

    def __init__(self, topic: str, ask: Ask, admitted: frozenset[str], client: str) -> None:
        self.topic = topic
        self.ask = ask
        self.admitted = admitted
        self.client = client

    async def setup(self, worker: Worker) -> None:
        if worker.id in self.admitted:
            return
        try:
            problems = await asyncio.to_thread(self.ask, worker)
        except Exception as error:
            problems = [_not_asked(error)]
        if not problems or await self._has_ended(worker):
            return
        worker.status = Status.closing_gracefully  # it begins no task from now on
        worker.log_event(self.topic, (worker.address, problems))
        # Not waited for: the worker's nanny answers no request before the worker is set up.
        worker.loop.add_callback(_leave, worker)

    async def _has_ended(self, worker: Worker) -> bool:
        events = await worker.scheduler.events(topic=self.client)
        return bool(events) and events[-1][1].get("action") == "remove-client"


async def _leave(worker: Worker) -> None:
    """Give back the tasks that the scheduler may have given to the worker already, without counting them as failed."""
    await worker.scheduler.retire_workers(workers=[worker.address], close_workers=False, remove=True)
    await worker.close(nanny=True, reason="it cannot do the work of a run of storyframes")
