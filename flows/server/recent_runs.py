"""The runs that the Prefect server knows, newest first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from storyframes.store.storage.processes import ProcessIdentity

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

FLOWS = ("extract-study", "extract-session", "train-benchmark")
KILLED = "the command was killed"
_TAG = "storyframes-process:"


@dataclass(frozen=True)
class RecentRun:
    """One run of a flow."""

    name: str  # as Prefect called it
    flow: str
    state: str  # Completed, PartialSuccess, Failed, Crashed, Running, Scheduled, …
    message: str  # of the state: counts, or why it could not be done
    started: datetime | None  # UTC; None before it starts
    seconds: float  # how long it has run, or ran

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"started": self.started.isoformat() if self.started else None}


def own_tag() -> str:
    """The tag of the runs of this process, by which another process can see later whether it is dead."""
    return f"{_TAG}{_machine()}:{ProcessIdentity.this_process().text()}"


def recent_runs(limit: int) -> list[RecentRun]:
    """The last ``limit`` runs on the server that is configured; see :func:`flows.server.prefect_server.prefect_server`.

    What is scheduled for later is no last run; what should have started and has not is one.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        FlowFilter,
        FlowFilterName,
        FlowRunFilter,
        FlowRunFilterExpectedStartTime,
    )
    from prefect.client.schemas.sorting import FlowRunSort

    by_name = FlowFilter(name=FlowFilterName(any_=list(FLOWS)))
    now = FlowRunFilterExpectedStartTime.model_validate({"before_": datetime.now(UTC)})
    until_now = FlowRunFilter(expected_start_time=now)
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=by_name,
            flow_run_filter=until_now,
            sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            limit=limit,
        )
        names = {flow.id: flow.name for flow in client.read_flows(flow_filter=by_name)}
    return [_to_run(run, names.get(run.flow_id, "")) for run in runs]


def _to_run(run: FlowRun, flow: str) -> RecentRun:
    state = (run.state.name if run.state else "") or ""
    message = (run.state.message if run.state else "") or ""
    if run.state and not run.state.is_final() and _is_dead(run):
        state, message = "Crashed", KILLED  # no process was left to report it
    return RecentRun(run.name, flow, state, message, run.start_time, run.estimated_run_time.total_seconds())


def end_dead_runs() -> int:
    """Mark every unfinished run whose process is dead as crashed on the server. Gives their number.

    A command that was killed took its server with it, so its run was left unfinished. Only a run that this
    machine knows to be dead is ended.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateName
    from prefect.states import Crashed

    unfinished = FlowRunFilter(state=FlowRunFilterState(name=FlowRunFilterStateName(any_=["Running", "Pending"])))
    with get_client(sync_client=True) as client:
        runs = [run for run in client.read_flow_runs(flow_run_filter=unfinished) if _is_dead(run)]
        for run in runs:
            client.set_flow_run_state(run.id, Crashed(message=KILLED), force=True)
    return len(runs)


def _is_dead(run: FlowRun) -> bool:
    for tag in run.tags:
        machine, _, owner_text = tag.removeprefix(_TAG).partition(":")
        owner = ProcessIdentity.parse(owner_text) if tag.startswith(_TAG) else None
        if owner:
            # Ids of processes mean nothing in another machine or container; no process outlives a restart.
            restarted = bool(machine) and machine == _machine() and bool(owner.boot) and not owner.is_of_this_boot
            return owner.is_gone or restarted
    return False


def _machine() -> str:
    """A digest of this machine's id, which does not reveal it; empty where it has none, as in a container."""
    try:
        return sha256(Path("/etc/machine-id").read_bytes()).hexdigest()[:16]
    except OSError:
        return ""
