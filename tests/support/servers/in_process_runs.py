"""Runs in this process during which something happens to the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flows.in_process import perform_in_process
from flows.noted_part import NotedPart
from flows.run import Progress, Run, open_run, planned
from support.servers.prefect_runs import request
from tasks.extract import Outcome


class After(Progress):
    """Does something after the first outcome."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.outcomes: list[Outcome] = []
        self.warnings: list[str] = []
        self._action = action

    def finished(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if len(self.outcomes) == 1:
            self._action()

    def warned(self, line: str) -> None:
        self.warnings.append(line)


def run_and_do_after_the_first(study: Path, root: Path, action: Callable[[], object]) -> tuple[Run, After]:
    """Extract the frames of a study as a part of one, in this process."""
    progress = After(action)
    run = planned(open_run(request(study, root, only=["frames"], part="1/1"), progress))
    with NotedPart(run):
        perform_in_process(run)
    return run, progress
