"""Doing units on a Dask cluster as Prefect tasks, short units several to a task.

:func:`do_on_cluster` is what extraction and plug-ins call with units of their own; :class:`flows.gather.Unit` says what
a unit is.

Prefect sends the flow itself, by value, and all its settings with every task: a flow that is a closure over the work
would send all of it each time. So the flow's only parameter is the request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import dask
from distributed.client import Client, ClosedClientError
from distributed.comm import CommClosedError
from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State
from prefect.tasks import Task
from prefect_dask import DaskTaskRunner

from flows.clusters.connection import Connection, Needs, SchedulerLostError, at_the_same_time, resources_of
from flows.clusters.dask_cluster import dask_cluster
from flows.clusters.dask_parts import JobTooShortError
from flows.clusters.gpu_sharing import processes_of
from flows.clusters.settings import ClusterSettings
from flows.gather import Bundle, Executor, Future, Gather, O, Unit, WorkerLostError
from flows.in_process import attempt
from flows.interruption import heeded
from flows.run import result_of
from storyframes.store.storage.processes import keep_private

PATIENCE_S = 60.0  # for a network file system that shows this machine what a worker wrote a moment ago
_LOOK_EVERY_S = 2.0
_SAID = 3  # outcomes in a sentence


def wait_until_settled(client: Client) -> None:
    """Wait while a client that lost its scheduler tries to reach it, or closes: what it is given then may never end.

    Raises:
        CommClosedError: it has given the scheduler up.
    """
    while client.status in ("connecting", "closing"):
        time.sleep(0.1)
    if client.status == "closed":
        raise CommClosedError("the client has given the Dask scheduler up")


def do_on_cluster(
    units: Sequence[Unit[O]],
    cluster: ClusterSettings,
    *,
    task: Task[[Bundle[Any]], State],
    admit: Callable[[Connection, Sequence[Any], Callable[[str], None]], AbstractContextManager[None]],
    doubts: Callable[[Sequence[O]], Mapping[O, str]],
    settled: Callable[[O], None],
    warn: Callable[[str], None],
) -> list[O]:
    """Do the units on a cluster and give back their outcomes, in the order in which they became final.

    Within a flow, whose tasks they become. See :class:`flows.gather.Gather` for the order, and for what is tried again.

    Args:
        units: in the order in which they should begin.
        task: does the units of a bundle, see :func:`unit_task`.
        admit: a block in which only workers that can do the units do them, given the cluster, the units and ``warn``;
            raises ClusterError where a worker that is there cannot.
        doubts: of the outcomes that workers say, those that this process does not find to be so, with the reason.
        warn: called, also from another thread, with a line about a worker that joined while the run goes on and takes
            no units, or about what the run waits for.

    Raises:
        ClusterError: the cluster cannot do these units; none of them was started.
        SchedulerLostError: the scheduler ended in the middle.
    """
    if not units:
        return []
    logger = get_run_logger()

    def settle(outcome: O) -> None:
        logger.info("%s", outcome)
        settled(outcome)

    needs = [unit.needs for unit in units]
    with (
        dask_cluster(cluster, needs, warn) as connection,
        admit(connection, units, warn),
        heeded(),
        DaskTaskRunner(address=connection.address, client_kwargs=connection.options) as runner,
    ):
        resources = resources_of(cluster, connection, needs, processes_of(cluster, needs))
        executor = ClusterExecutor(runner, task, resources, doubts, connection.gave_up)
        try:
            return Gather(executor, settle, warn=warn).run(units)
        except (ClosedClientError, CommClosedError):
            lost = f"the Dask scheduler at {connection.address} ended or is not reached any more"
            why = "; ".join(connection.gave_up) or lost
            raise SchedulerLostError(f"{why}: run this again later, what was published stays") from None


class ClusterExecutor(Executor[O]):
    """Bundles of units as Prefect tasks that Dask's workers do.

    Args:
        runner: of Prefect, started.
        resources: of all workers together.
        doubts: see :func:`do_on_cluster`.
        gave_up: why the cluster has ended the scheduler, once it has: then nothing that did not end is a unit's fault.
    """

    def __init__(
        self,
        runner: DaskTaskRunner,
        task: Task[[Bundle[Any]], State],
        resources: Needs,
        doubts: Callable[[Sequence[O]], Mapping[O, str]],
        gave_up: Sequence[str],
    ) -> None:
        self._runner = runner
        self._task = task
        self._resources = resources
        self._doubts_of = doubts
        self._gave_up = gave_up
        self._patient_until: float | None = None  # begins with the first outcome in doubt

    def capacity(self, needs: Needs) -> int:
        """How many such units the cluster does at the same time."""
        return at_the_same_time(self._resources, needs)

    def submit(self, bundle: Bundle[O], rank: int) -> Future:
        """Hand it to Dask, which begins the tasks that wait for a worker in the order of their ranks."""
        wait_until_settled(self._runner.client)
        with dask.annotate(resources=dict(bundle.units[0].needs), priority=-rank):
            return self._runner.submit(self._task, {"bundle": bundle})

    def read(self, future: Any, bundle: Bundle[O]) -> Sequence[Sequence[O]]:
        """The outcomes that a finished future has; of a unit without any, what it left behind."""
        if self._gave_up:
            raise CommClosedError("; ".join(self._gave_up))
        try:
            future.wait()
            given_up = future.wrapped_future.exception()  # which waiting does not raise
        except Exception as error:  # whatever Dask raises for a task that it gave up
            raise WorkerLostError from error
        if isinstance(given_up, JobTooShortError):
            raise WorkerLostError(str(given_up))
        if future.wrapped_future.cancelled():  # by a client that lost its scheduler, which is not the unit's fault
            wait_until_settled(self._runner.client)
        state = future.state
        if not state.is_final():  # Dask gave the task up: no worker was left to say how it ended
            raise WorkerLostError
        ended = result_of(state)
        if isinstance(ended, tuple) and len(ended) == len(bundle.units):
            doubts = self._doubts([outcome for of_unit in ended if not isinstance(of_unit, str) for outcome in of_unit])
            return [_final(unit, of_unit, doubts) for unit, of_unit in zip(bundle.units, ended, strict=True)]
        if len(bundle.units) > 1:  # it ended in the middle of one of them: alone, each shows what became of it
            raise WorkerLostError
        lost = f"the task ended as {state.name}, and what came of it was lost with its worker"
        reason = lost if state.is_completed() else f"the task ended as {state.name}: {state.message}"
        return [unit.lost(reason) for unit in bundle.units]

    def _doubts(self, outcomes: Sequence[O]) -> Mapping[O, str]:
        """The outcomes that are not so, with the reason; waits once in a run for what may only be late to be seen."""
        doubts = self._doubts_of(outcomes)
        if doubts and self._patient_until is None:
            self._patient_until = time.monotonic() + PATIENCE_S
        while doubts and time.monotonic() < (self._patient_until or 0.0):
            time.sleep(_LOOK_EVERY_S)
            doubts = self._doubts_of(tuple(doubts))
        return doubts


def _final(unit: Unit[O], answer: Sequence[O] | str, doubts: Mapping[O, str]) -> Sequence[O]:
    """The outcomes of a unit: as its worker says, or as this process finds them where that cannot be right."""
    if isinstance(answer, str):
        return unit.lost(answer)
    reason = next((doubts[outcome] for outcome in answer if outcome in doubts), "")
    return unit.lost(reason) if reason else answer


def do_in_turn(bundle: Bundle[O]) -> State:
    """Do the units of a bundle one after the other.

    Returns:
        Completed where nothing failed, Failed where everything did, else PartialSuccess, which is of the type Failed.
        Its data has for each unit its outcomes, or in words why it has none.
    """
    keep_private()
    logger = get_run_logger()
    ended: list[tuple[O, ...] | str] = []
    for unit in bundle.units:
        logger.info("%s: started", unit.name)
        outcomes = attempt(unit)
        ended.append(outcomes)
        if isinstance(outcomes, str):
            logger.error("%s: %s", unit.name, outcomes)
            continue
        for outcome in outcomes:
            logger.info("%s", outcome)
    return _state(bundle, ended)


def unit_task(name: str) -> Task[[Bundle[Any]], State]:
    """A Prefect task under this name that does a bundle of units; its runs are called by their units."""
    return task(name=name, task_run_name="{bundle.name}", cache_policy=NO_CACHE)(do_in_turn)


def _state(bundle: Bundle[Any], ended: Sequence[tuple[Any, ...] | str]) -> State:
    outcomes = [outcome for of_unit in ended if not isinstance(of_unit, str) for outcome in of_unit]
    good = [str(outcome) for outcome in outcomes if not outcome.failed]
    bad = [str(outcome) for outcome in outcomes if outcome.failed]
    bad += [f"{unit.name}: {why}" for unit, why in zip(bundle.units, ended, strict=True) if isinstance(why, str)]
    data = tuple(ended)
    if not bad:
        return Completed(message=good[0] if len(good) == 1 else _in_short(good, "done"), data=data)
    name = "PartialSuccess" if good else "Failed"
    return Failed(name=name, message=_in_short(bad, f"of {len(good) + len(bad)} failed"), data=data)


def _in_short(lines: Sequence[str], what: str) -> str:
    more = f"; and {len(lines) - _SAID} more" if len(lines) > _SAID else ""
    return f"{len(lines)} {what}: {'; '.join(lines[:_SAID])}{more}"
