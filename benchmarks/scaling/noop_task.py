"""A Prefect task like that of :mod:`flows.work`, without the work: the same logging, the same kind of state."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import State

from benchmarks.scaling.noop_work import noop
from flows.gather import Bundle
from flows.in_turn import do_in_turn
from flows.work import describe
from tasks.extract import Work


@task(name="extract", task_run_name="{bundle.name}", cache_policy=NO_CACHE)
def noop_task(bundle: Bundle[Work]) -> State:
    """As ``extract_task``, which see."""
    return do_in_turn(bundle, noop, describe)
