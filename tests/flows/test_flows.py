"""The flows on a real Prefect server and real Dask worker processes, one server for all tests of this file.

A cluster takes five seconds of a processor to start: tests that are not about theirs share one, of one worker.
"""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from support.messages import missing
from support.opened_files import below, files_opened
from support.processes import ended, wait_for
from support.servers.prefect_runs import extract, request
from support.stores import catalogue_rows, local

from flows.cli.run import run_extraction
from flows.clusters.connection import ClusterError, Connection
from flows.clusters.dask_cluster import DASK, dask_cluster
from flows.clusters.settings import LocalCluster
from storyframes.store import record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Status

pytestmark = pytest.mark.slow
ONE: dict[str, dict[str, object]] = {"cluster": {"cpus": 1}}  # a worker less to start, where it is not about them


@pytest.fixture
def given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work whose worker died is not given to three more, each of which takes seconds to start.

    That it is given to more, and then done, is in test_faults.py.
    """
    monkeypatch.setitem(DASK, "distributed.scheduler.allowed-failures", 0)


@pytest.fixture(scope="module")
def cluster(server) -> Iterator[Connection]:
    with dask_cluster(LocalCluster(cpus=1), [{"CPU": 1}]) as connection:
        yield connection


def share(cluster: Connection, patch: pytest.MonkeyPatch) -> None:
    """Let runs use this cluster in place of one of their own."""
    patch.setattr("flows.clusters.dask_cluster.local_cluster", lambda settings, needs: nullcontext(cluster))


@pytest.fixture
def shared_cluster(cluster: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    share(cluster, monkeypatch)


@pytest.fixture(scope="module")
def extracted(cluster: Connection, small_study: Path, tmp_path_factory):
    root = tmp_path_factory.mktemp("features") / "features"
    with pytest.MonkeyPatch.context() as patch:
        share(cluster, patch)
        state, report = extract(small_study, root, ONE)
    return root, state, report


def test_a_study_becomes_features_and_clips(extracted) -> None:
    root, state, report = extracted
    assert (state.name, report.submitted, report.failed) == ("Completed", 14, ())
    store = FeatureStore(root)
    assert store.sessions == ["s0001", "s0002"]
    assert store.features("s0001") == ["frames", "glove", "openface", "opensmile", "resnet50", "sbert"]
    clips = store.clips()
    assert len(clips) == report.clips > 0
    clip = clips.iloc[0]
    assert store.read(clip["session_id"], "vision", clip["start_frame"], clip["stop_frame"]).shape == (15, 2762)
    assert clip["face_tracked"] == 1
    having = [name for name in clips.columns if name.startswith("has_") and name != "has_dope"]
    assert clips[having].all(axis=None)
    assert not clips["has_dope"].any()


def test_an_unchanged_study_submits_nothing_and_starts_no_cluster(extracted, small_study, monkeypatch) -> None:
    import flows.on_cluster

    root, _, _ = extracted
    monkeypatch.setattr(flows.on_cluster, "dask_cluster", lambda *args: pytest.fail("a cluster was started"))
    rows, clips = catalogue_rows(root), (root / "clips.parquet").stat().st_mtime_ns
    state, report = extract(small_study, root)
    assert (state.name, report.submitted, len(report.outcomes)) == ("Completed", 0, 14)
    assert (root / "clips.parquet").stat().st_mtime_ns == clips
    assert catalogue_rows(root) == rows  # the file may note that records which were new are settled by now
    without_server = run_extraction(request(small_study, root), Console(file=io.StringIO()))
    assert replace(without_server, seconds=0) == replace(report, seconds=0)


def test_a_run_from_the_command_line_loads_the_study_once_and_says_which_server_it_asks(
    server: str, study_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import flows.on_cluster
    from tasks.study.load import load_study

    def refuse(*_: object) -> None:
        raise ClusterError("no worker is started here")

    monkeypatch.setattr(flows.on_cluster, "dask_cluster", refuse)
    with files_opened() as opened:
        load_study(study_copy)
    once = below(opened, study_copy)
    console = Console(record=True, width=200, file=io.StringIO())
    with files_opened() as opened, pytest.raises(ClusterError, match="no worker is started here"):
        run_extraction(request(study_copy, tmp_path / "features", only=["frames"]), console)
    again = below(opened, study_copy)
    assert {table: again[table] for table in ("sessions.csv", "phases.csv", "ratings.csv")} == {
        table: once[table] for table in ("sessions.csv", "phases.csv", "ratings.csv")
    }
    said = console.export_text().splitlines()
    assert f"asking the Prefect server at {server} …" in said
    assert "starting a Prefect server …" not in said


@pytest.mark.usefixtures("shared_cluster")
def test_one_feature_of_one_session_again(extracted, small_study: Path) -> None:
    from flows.run import result_of
    from flows.study import extract_session

    root, _, _ = extracted
    before = FeatureStore(root).catalogue.set_index(["session_id", "feature"])["version"]
    state = extract_session("s0002", request(small_study, root, only=["opensmile"], force=True), return_state=True)
    report = result_of(state)
    assert (state.name, report.submitted) == ("Completed", 1)
    after = FeatureStore(root).catalogue.set_index(["session_id", "feature"])["version"]
    assert list(after.index[after != before]) == [("s0002", "opensmile")]


def test_the_run_leaves_a_table_on_the_server(extracted) -> None:
    from prefect.artifacts import Artifact

    artifact = Artifact.get("extraction")
    assert artifact.description
    assert '"session"' in artifact.data
    assert "garden" not in artifact.data
    assert "| extracted |" in Artifact.get("summary").data
    assert "| session" in Artifact.get("study").data or "| sessions |" in Artifact.get("study").data


@pytest.mark.usefixtures("shared_cluster")
def test_what_waited_for_its_clock_begins_before_what_comes_later_in_the_order(
    server, small_study: Path, tmp_path: Path
) -> None:
    from dataclasses import replace

    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from prefect.states import Completed
    from support.servers.prefect_runs import extract_in_a_flow

    from tasks.extract import Outcome
    from tasks.planning.plan import plan_extraction
    from tasks.study.load import load_study

    began = tmp_path / "began"

    @task(cache_policy=NO_CACHE)
    def note(bundle):
        import time

        (work,) = bundle.units
        with began.open("a") as file:
            file.write(f"{work.cost:g}\n")
        if work.cost == 2:
            time.sleep(4)  # what waited for the clock is submitted meanwhile
        outcome = Outcome(work.session_id, work.features[0], Status.MISSING, reason="nothing is extracted here")
        return Completed(data=((outcome,),))

    asked = request(small_study, tmp_path / "features", only=["frames", "opensmile"])
    plan = plan_extraction(load_study(small_study), asked.features, asked.load_settings(), asked.selection)
    clock = plan.units[0]
    assert clock.features == ("frames",)
    waits = next(unit for unit in plan.units if unit.features == ("opensmile",) and unit.session_id == clock.session_id)
    free = replace(waits, source=replace(waits.source, session_id="another"))
    places = (clock, waits, free, free, waits, free)  # the cost tells which it is
    extract_in_a_flow(
        [replace(unit, cost=place) for place, unit in enumerate(places)], LocalCluster(cpus=1), print, note
    )
    assert began.read_text().split() == ["0", "2", "1", "3", "4", "5"]


@pytest.mark.end_to_end
@pytest.mark.usefixtures("shared_cluster")
def test_a_session_that_fails_leaves_the_others_alone_and_so_does_a_file_that_is_missing(
    server, small_study: Path, tmp_path: Path
) -> None:
    study, root = Path(shutil.copytree(small_study, tmp_path / "study")), tmp_path / "features"
    (study / "videos/s0001.avi").write_bytes(b"not a video")
    only = ["openface", "opensmile"]
    state, report = extract(study, root, ONE, only=only)
    assert state.name == "PartialSuccess"
    assert state.is_failed()
    failing = {("s0001", "frames"), ("s0001", "openface"), ("s0001", "opensmile")}
    assert {(o.session_id, o.feature) for o in report.failed} == failing
    assert FeatureStore(root).features("s0002") == ["frames", *only]
    assert FeatureStore(root).sessions == ["s0002"]
    (study / "videos/s0001.avi").unlink()  # nothing is due any more, so no cluster is started
    state, report = extract(study, root, ONE, only=only)
    assert (state.name, report.good, report.submitted) == ("PartialSuccess", False, 0)
    assert {(o.session_id, o.feature) for o in report.failed} == failing
    assert [missing(o.reason, "videos/s0001.avi", "does not exist") for o in report.failed] == [[], [], []]
    state, report = extract(study, root, ONE, only=only, session_ids=("s0002",))
    assert (state.name, report.good) == ("Completed", True)


def test_absurd_phases_of_one_session_leave_the_others_their_clips(
    extracted, small_study: Path, tmp_path: Path
) -> None:
    study = Path(shutil.copytree(small_study, tmp_path / "study"))
    root = Path(shutil.copytree(extracted[0], tmp_path / "features"))  # all are extracted: no cluster is started
    phases = (study / "phases.csv").read_text().splitlines()
    assert phases[1].startswith("s0001,")
    phases[1] = "s0001,warm_up,0,1700000000000"
    (study / "phases.csv").write_text("\n".join([phases[0], phases[1], *phases[5:]]) + "\n")
    state, report = extract(study, root, ONE, only=["frames"])
    assert (state.name, report.good, report.failed, report.submitted) == ("PartialSuccess", False, (), 0)
    assert list(report.excluded) == ["s0001"]
    assert "no clips of s0001" in str(report)
    assert set(FeatureStore(root).clips()["session_id"]) == {"s0002"}
    state, report = extract(study, root, ONE, only=["frames"], session_ids=("s0002",))
    assert (state.name, report.excluded) == ("Completed", {})


def test_a_study_of_which_nothing_can_be_extracted_fails(server, small_study: Path, tmp_path: Path) -> None:
    study = Path(shutil.copytree(small_study, tmp_path / "study"))
    for video in (study / "videos").iterdir():
        video.unlink()  # so that no cluster is started
    state, report = extract(study, tmp_path / "features", ONE, only=["opensmile"])
    assert state.name == "Failed"
    assert len(report.failed) == 4


@pytest.mark.usefixtures("shared_cluster")
def test_two_runs_on_one_store_at_once(server, small_study: Path, tmp_path: Path) -> None:
    """A flow, and a command that extracts in its own process."""
    import subprocess
    import sys

    root, only = tmp_path / "features", ["openface", "opensmile"]
    ask = request(small_study, root, ONE)
    command = [sys.executable, "-m", "flows.cli", "extract", str(small_study), str(root), "--config", str(ask.config)]
    command += ["--features", ",".join(only)]
    alone = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True)
    assert alone.stderr is not None
    began = alone.stderr.readline()  # it has imported what it needs
    state, _ = extract(small_study, root, ONE, only=only)
    assert (state.name, ended(alone), began) == ("Completed", 0, "planning …\n")
    from storyframes.store import maintenance

    assert not list(maintenance.verify(local(root)))
    assert all(entry.status is Status.DONE for entry in record_status.scan(local(root)))
    assert FeatureStore(root).sessions == ["s0001", "s0002"]


def _answer_wrongly(bundle):
    """A worker that publishes and says nothing, one that publishes elsewhere, and one that does and says nothing."""
    from dataclasses import replace

    from prefect.states import Completed

    from flows.gather import Bundle
    from flows.on_cluster import do_in_turn
    from storyframes.store.layout import create_store
    from tasks.extract import extract

    (unit,) = bundle.units
    if unit.session_id == "elsewhere":
        other = f"{unit.store}-of-this-worker"
        create_store(other)
        return do_in_turn(Bundle((replace(unit, store=other, store_id=""),)))
    if unit.session_id == "published":
        extract(unit)
    return Completed(message="frames: 45 rows")  # its data went with the worker


@pytest.mark.usefixtures("shared_cluster")
def test_what_the_store_has_is_done_whatever_became_of_the_workers(
    server, small_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from support.servers.prefect_runs import extract_in_a_flow

    from storyframes.store.layout import create_store
    from tasks.planning.plan import plan_extraction
    from tasks.study.load import load_study

    asked = request(small_study, tmp_path / "features", session_ids=["s0001"], only=["frames"])
    monkeypatch.setattr("flows.on_cluster.PATIENCE_S", 0)
    create_store(asked.features)
    (clock,) = plan_extraction(load_study(small_study), asked.features, asked.load_settings(), asked.selection).units
    names = ("published", "elsewhere", "silent")
    outcomes = extract_in_a_flow(
        [replace(clock, source=replace(clock.source, session_id=name)) for name in names],
        LocalCluster(cpus=1),
        lambda outcome: None,
        task(_answer_wrongly, cache_policy=NO_CACHE),
    )
    found = {outcome.session_id: outcome for outcome in outcomes}
    assert (found["published"].status, found["published"].rows, found["published"].reason) == (Status.DONE, 45, "")
    assert found["elsewhere"].reason.startswith("a worker says that version")
    assert missing(found["silent"].reason, "Completed", "lost with its worker") == []
    entries = {entry.session_id: entry.status for entry in record_status.scan(local(tmp_path / "features"))}
    expected = {"published": Status.DONE, "elsewhere": Status.FAILED, "silent": Status.FAILED}
    assert {name: outcome.status for name, outcome in found.items()} == entries == expected


@pytest.mark.usefixtures("given_up_at_once")
def test_a_worker_killed_in_the_middle_of_a_task_takes_only_its_killer_with_it(
    server, small_study: Path, tmp_path: Path
) -> None:
    """Of twelve units in four tasks: the 2nd raises, the 5th kills its worker; each other is extracted, and once."""
    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from support.servers.prefect_runs import extract_in_a_flow

    from storyframes.store.layout import create_store
    from tasks.planning.plan import plan_extraction
    from tasks.study.load import load_study

    begun = tmp_path / "begun"

    @task(name="extract", task_run_name="{bundle.name}", cache_policy=NO_CACHE)
    def extract_or_die(bundle):
        import os
        import signal

        from flows.gather import Bundle
        from flows.on_cluster import do_in_turn
        from tasks.extract import ExtractionUnit, extract

        class Mortal(ExtractionUnit):
            def do(self):
                with begun.open("a") as file:
                    file.write(f"{self.session_id}\n")
                if self.session_id == "s05":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.session_id == "s02":
                    raise ValueError("what somebody said")
                return extract(self)

        fields = ("store", "source", "features", "settings", "since", "after", "needs", "cost")
        return do_in_turn(Bundle(Mortal(*(getattr(unit, name) for name in fields)) for unit in bundle.units))

    asked = request(small_study, tmp_path / "features", session_ids=["s0001"], only=["frames"])
    create_store(asked.features)
    (clock,) = plan_extraction(load_study(small_study), asked.features, asked.load_settings(), asked.selection).units
    names = [f"s{number:02d}" for number in range(1, 13)]
    work = [replace(clock, source=replace(clock.source, session_id=name)) for name in names]
    told: list[str] = []
    outcomes = extract_in_a_flow(
        work, LocalCluster(cpus=1), lambda outcome: told.append(outcome.session_id), extract_or_die
    )
    assert (sorted(told), len(outcomes)) == (names, 12)
    failed = {outcome.session_id: outcome.reason for outcome in outcomes if outcome.failed}
    assert failed.pop("s02") == "the task raised ValueError"
    assert missing(failed.pop("s05"), "every worker", "died", "alone") == []
    assert failed == {}
    assert Counter(begun.read_text().split()) == Counter([*names, "s05"])
    entries = {entry.session_id: entry.status for entry in record_status.scan(local(tmp_path / "features"))}
    assert entries == {name: Status.FAILED if name in ("s02", "s05") else Status.DONE for name in names}
    wait_for(lambda: _task_runs().get("s01/frames and 2 more"))
    state = _task_runs()["s01/frames and 2 more"]
    assert (state.name, state.is_failed()) == ("PartialSuccess", True)
    assert missing(state.message, "1 of 3 failed", "s02/frames", "ValueError") == []


def _task_runs():
    """By name, the state of the task runs that have ended."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return {run.name: run.state for run in client.read_task_runs() if run.state and run.state.is_final()}
