"""Workers that see another folder under the store's path: refused before any work, also where they join later."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import storyframes
from support.messages import missing
from support.processes import wait_for
from support.servers.own_mounts import Workers, scheduler_of

from flows.clusters.connection import existing_scheduler
from flows.clusters.preflight import only_able_workers
from flows.clusters.settings import load_cluster
from storyframes.store.layout import create_store
from tasks.extract import ExtractionUnit, extract, not_in_store
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings

pytestmark = [pytest.mark.slow, pytest.mark.needs("mounts")]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with scheduler_of(folder) as started:
        yield started


def test_a_worker_that_sees_another_folder_is_refused_before_any_work(
    workers: Workers, study_copy: Path, tmp_path: Path, shared_server
) -> None:
    features = tmp_path / "features"
    features.mkdir()
    workers.join("seeing")
    workers.join("blind", blind_to=features)
    wait_for(lambda: len(workers.there()) == 2)
    blind = workers.there()["blind"]
    command = ("extract", study_copy, features, "--features", "frames", "--cluster", workers.cluster)
    refused = storyframes(*command, environment=shared_server)
    assert refused.returncode == 2, refused.stdout
    assert missing(refused.stderr, features, blind) == []
    assert refused.stderr.count("it sees another") == 1
    assert not list(features.glob("*/frames")), "no work was begun"
    assert not list(features.glob(".run-*")), "the mark of the run is gone"


def test_a_worker_that_joins_later_and_sees_another_folder_takes_no_work(workers: Workers, store_root: Path) -> None:
    workers.join("seeing")
    work = [ExtractionUnit(str(store_root), Source("s1", {}), ("frames",), ExtractorsSettings())]
    warnings: list[str] = []
    pause, has_plug_in = _imported_nowhere()
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(existing_scheduler(load_cluster(str(workers.cluster)), [{"CPU": 1}]))
        client = stack.enter_context(connection.client())
        seeing = workers.there()["seeing"]
        with only_able_workers(connection, work, warnings.append):
            # More than the worker that is there can begin at once: whoever joins and may, takes of them.
            waiting = [client.submit(pause, number, resources={"CPU": 1}, pure=False) for number in range(60)]
            workers.join("blind", blind_to=store_root, nanny=True)
            wait_for(lambda: warnings)
            wait_for(lambda: workers.started["blind"].poll() is not None, what="the worker and its nanny end")
            workers.join("late")
            wait_for(lambda: "late" in workers.there())
            late = workers.there()["late"]
            did = set(client.gather(waiting))
        assert did == {seeing, late}
        (line,) = warnings
        assert missing(line, store_root, "another") == []
        assert not any(client.run(has_plug_in).values())
        workers.join("of somebody else's run", blind_to=store_root)
        wait_for(lambda: len(workers.there()) == 3)
        assert client.submit(sum, [1, 2], workers=["of somebody else's run"]).result(60) == 3


def test_what_a_killed_run_left_on_the_scheduler_sends_nobody_away(workers: Workers, store_root: Path) -> None:
    workers.join("seeing")
    killed = """
import os, sys
from flows.clusters.connection import existing_scheduler
from flows.clusters.preflight import only_able_workers
from flows.clusters.settings import load_cluster
from tasks.extract import ExtractionUnit
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings

work = [ExtractionUnit(sys.argv[2], Source("s1", {}), ("frames",), ExtractorsSettings())]
with existing_scheduler(load_cluster(sys.argv[1]), [{"CPU": 1}]) as connection:
    with only_able_workers(connection, work, print):
        os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-c", killed, str(workers.cluster), str(store_root)]
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": os.getcwd()}, check=False).returncode == -9
    (left,) = store_root.glob(".run-*")
    left.unlink()
    workers.join("of the next run")
    with existing_scheduler(load_cluster(str(workers.cluster)), [{"CPU": 1}]) as connection:
        wait_for(lambda: len(workers.there()) == 2)
        with connection.client() as client:
            assert client.submit(sum, [1, 2], workers=["of the next run"]).result(60) == 3


def _imported_nowhere():
    """What workers do in a test; they cannot import it, so it travels as it is."""

    def pause(number: int) -> str:
        import time

        from distributed import get_worker

        time.sleep(0.25)
        return get_worker().address

    def has_plug_in(dask_worker) -> bool:
        """Whether anything of a run is left in a worker."""
        return any(name.startswith("storyframes") for name in dask_worker.plugins)

    return pause, has_plug_in


def test_what_a_worker_says_is_done_counts_where_the_store_has_it(
    demo_study: Path, store_root: Path, tmp_path: Path
) -> None:
    """What a worker published into another folder is not done; what it did here is, also where it is superseded."""
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection
    from tasks.study.load import load_study

    storage, elsewhere = create_store(store_root), create_store(tmp_path / "elsewhere")
    settings = ExtractorsSettings(features=("frames",))
    plan = plan_extraction(load_study(demo_study), storage, settings, Selection(("p01-s01",)))
    (work,) = plan.units
    (there,) = extract(replace(work, store=elsewhere.location))
    (doubted,) = (doubts := not_in_store(storage, [there]))
    assert doubted == there
    assert f"version {there.version} of it is published, but {storage.location} does not have it" in doubts[there]
    (first,) = extract(work)
    (again,) = extract(replace(work, since={"frames": 99}))
    assert len({there.version, first.version, again.version}) == 3
    assert list(not_in_store(storage, [first, again, there])) == [there]
    (skipped,) = extract(work)
    assert (skipped.skipped, skipped.version) == (True, again.version)
    assert not_in_store(storage, [skipped]) == {}
