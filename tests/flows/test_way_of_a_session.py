"""The way of a session, from planning to its current version, is read in few files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.called_files import called_files, described
from support.servers.prefect_runs import request

from flows.run import open_run, planned
from storyframes.store.records import Status
from tasks.extract import extract
from tasks.media.synthesize import SyntheticStudy, write_study

MOST, MOST_WITH_PLANNING = 31, 45


@pytest.mark.slow
def test_a_session_comes_from_planning_to_its_current_version_in_few_files(tmp_path: Path) -> None:
    """Of resnet50, in a process that has extracted another session: networks are loaded, caches are filled."""
    study = tmp_path / "study"
    write_study(study, SyntheticStudy(sessions=2, seconds=1, width=160, height=120))
    first, second = (
        open_run(request(study, tmp_path / "features", only=["resnet50"], session_ids=[session]))
        for session in ("s0001", "s0002")
    )
    for unit in planned(first).plan.units:
        extract(unit)
    with called_files() as planning:
        units = planned(second).plan.units
    with called_files() as extracting:
        outcomes = [outcome for unit in units for outcome in extract(unit)]
    assert [outcome.status for outcome in outcomes] == [Status.DONE, Status.DONE]
    assert 10 < len(extracting) <= MOST, described(extracting)
    assert len(planning | extracting) <= MOST_WITH_PLANNING, described(planning)
