"""A Prefect task like that of :mod:`flows.work`, without the work: the same logging, the same kind of state."""

from __future__ import annotations

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from benchmarks.noop_work import noop
from flows.work import describe
from tasks.extract import Work


@task(name="extract", task_run_name="{work.name}", cache_policy=NO_CACHE)
def noop_task(work: Work) -> State:
    """As ``extract_task``, which see."""
    logger = get_run_logger()
    logger.info("%s: started", work.name)
    outcomes = noop(work)
    for outcome in outcomes:
        logger.info("%s", describe(outcome))
    message = "; ".join(f"{outcome.feature}: {outcome.rows} rows" for outcome in outcomes)
    return Completed(message=message, data=outcomes)
