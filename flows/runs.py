"""The runs that the Prefect server knows, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

FLOWS = ("extract-study", "extract-session")


@dataclass(frozen=True)
class Run:
    """One run of a flow.

    Attributes:
        name: as Prefect called it.
        flow: which flow.
        state: Completed, PartialSuccess, Failed, Crashed, Running, Scheduled, …
        message: of the state: counts, or why it could not be done.
        started: UTC; None before it starts.
        seconds: how long it has run, or ran.
    """

    name: str
    flow: str
    state: str
    message: str
    started: datetime | None
    seconds: float

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"started": self.started.isoformat() if self.started else None}


def recent_runs(limit: int) -> list[Run]:
    """The last ``limit`` runs on the server that is configured; see :func:`flows.server.prefect_server`."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName
    from prefect.client.schemas.sorting import FlowRunSort

    by_name = FlowFilter(name=FlowFilterName(any_=list(FLOWS)))
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_filter=by_name, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=limit)
        names = {flow.id: flow.name for flow in client.read_flows(flow_filter=by_name)}
    return [
        Run(
            name=run.name,
            flow=names.get(run.flow_id, ""),
            state=run.state.name if run.state else "",
            message=(run.state.message if run.state else "") or "",
            started=run.start_time,
            seconds=run.estimated_run_time.total_seconds(),
        )
        for run in found
    ]


def mark_abandoned(names: Sequence[str] = ("Running", "Pending")) -> int:
    """Say of every run that is not over that it crashed; for a server that nobody else uses. Gives their number.

    A command that was killed took its server with it, so nobody could say how its run ended.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateName
    from prefect.states import Crashed

    unfinished = FlowRunFilter(state=FlowRunFilterState(name=FlowRunFilterStateName(any_=list(names))))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=unfinished)
        for run in runs:
            client.set_flow_run_state(run.id, Crashed(message="the command was killed"), force=True)
    return len(runs)
