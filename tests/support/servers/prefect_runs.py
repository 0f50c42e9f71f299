"""Extractions through the flows, on whichever Prefect server is set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefect.states import State

    from flows.request import ExtractionRequest
    from flows.run import RunResult
    from tasks.extract import Outcome

DEMO = Path(__file__).parents[3] / "demo"


def request(study: Path, root: Path, sections: Mapping[str, Any] | None = None, **parameters: Any) -> ExtractionRequest:
    """A request with its configuration written beside the store; ``sections`` change those of the configuration."""
    from flows.request import ExtractionRequest

    configuration: dict[str, Any] = {
        "resnet50": {"allow_untrained": True},
        "glove": {"vectors": str(DEMO / "glove.demo.300d.txt"), "demo_vectors": True},
        "clips": {"window": 15, "stride": 5},
        "cluster": {"cpus": 2},
    } | dict(sections or {})
    path = root.with_name("storyframes.toml")
    lines = []
    for section, values in configuration.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    path.write_text("\n".join(lines))
    return ExtractionRequest(study=study, features=str(root), config=path, **parameters)


def extract(
    study: Path, root: Path, sections: Mapping[str, Any] | None = None, **parameters: Any
) -> tuple[State, RunResult]:
    from flows.run import result_of
    from flows.study import extract_study

    state = extract_study(request(study, root, sections, **parameters), return_state=True)
    return state, result_of(state)


def extract_in_a_flow(*arguments: Any) -> list[Outcome]:
    """:func:`flows.study.extract_units`, within a flow as it has to be."""
    from prefect import flow

    from flows.study import extract_units

    outcomes: list[Outcome] = []

    @flow(name="extract-units")
    def run() -> None:
        outcomes.extend(extract_units(*arguments))

    run()
    return outcomes
