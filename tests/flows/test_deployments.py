"""The deployments of deploy/prefect.yaml on a real Prefect server, PostgreSQL and process worker, one for all tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.processes import processes_with
from support.servers.deployed_house import FINAL, ROOT, House, deployed_house, until
from support.servers.deployment_server import running

from storyframes.store.feature_store import FeatureStore

pytestmark = [pytest.mark.slow, pytest.mark.needs("postgresql")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with deployed_house(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"only": ["../nose"]}, "request.only[0]"),  # a name that no feature has fails its run: [[embed]] has any
        ({"session_ids": ["../s0001"]}, "request.session_ids[0]"),
        ({"study": "study"}, "request.study"),
        ({"features": ""}, "request.features"),
        ({"cluster": "cluster.yaml"}, "request.cluster"),
        ({"force": "maybe"}, "request.force"),
        ({"forse": True}, "'forse' was unexpected"),
    ],
)
def test_a_bad_request_is_refused_before_there_is_a_run(house: House, changes: dict[str, Any], why: str) -> None:
    path = f"deployments/{house.deployment('rerun')['id']}/create_flow_run"
    answer = house.api.post(path, json=house.request(**changes))
    assert answer.status_code == 409
    assert why in answer.json()["detail"]
    assert house.runs_of("rerun") == []


def test_nobody_without_the_password_gets_in(house: House) -> None:
    assert httpx.get(house.environment["PREFECT_API_URL"] + "/admin/version").status_code == 401


def test_the_form_explains_every_field(house: House) -> None:
    for name in ("nightly", "rerun"):
        schema = house.deployment(name)["parameter_openapi_schema"]["definitions"]["ExtractionRequest"]
        assert all(field["description"] for field in schema["properties"].values())
        assert "openface" in schema["properties"]["only"]["anyOf"][0]["items"]["examples"]


def test_the_nightly_schedule_is_in_the_labs_time(house: House) -> None:
    (schedule,) = [it for it in house.deployment("nightly")["schedules"] if it["slug"] == "nightly"]
    assert schedule["schedule"] == {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "day_or": True}
    assert house.deployment("nightly")["global_concurrency_limit"]["limit"] == 1


def test_a_scheduled_run_fires_and_leaves_its_report(house: House) -> None:
    # On a busy machine the next one is due while the first begins: there is place for one, the other is cancelled.
    ended = [house.ended(begun["id"]) for begun in house.begun("nightly")]
    (run,) = [each for each in ended if each["state_type"] != "CANCELLED"]
    assert (run["state"]["name"], run["auto_scheduled"]) == ("Completed", True)
    assert run["state"]["message"] == "2 extracted, 0 up to date, 0 without input, 0 failed"
    assert FeatureStore(house.folder / "features").sessions == ["s0001", "s0002"]
    wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
    left = house.api.post("artifacts/filter", json=wanted).json()
    assert {artifact["key"] for artifact in left} == {"progress", "summary", "extraction", "study"}
    # Logs from the workers' processes reach the server, with the session and the feature in every line.
    logs = house.api.post("logs/filter", json={"logs": {"flow_run_id": {"any_": [run["id"]]}}}).json()
    assert any(log["task_run_id"] and "s0001/frames: done" in log["message"] for log in logs)


def test_silence_is_told(house: House) -> None:
    until(house.subjects, lambda subjects: "storyframes: no nightly run for 26 hours" in subjects)


def test_one_session_again_and_its_failure_is_told(house: House) -> None:
    before = versions(house)
    run = house.ended(house.rerun(session_ids=["s0002"], only=["frames", "openface"], force=True))
    assert (run["state"]["name"], run["state"]["type"]) == ("PartialSuccess", "FAILED")
    assert run["state"]["message"] == "1 extracted, 0 up to date, 0 without input, 1 failed"
    after = versions(house)
    assert {key for key in before if after[key] != before[key]} == {("s0002", "frames")}
    until(house.subjects, lambda subjects: "storyframes: rerun ended as PartialSuccess" in subjects)
    assert not any("s0002" in json.dumps(message) for message in house.messages)
    # The server knows how the run ended before the process has written its last line.
    said = "IncompleteError: 1 extracted, 0 up to date, 0 without input, 1 failed"
    log = until((house.folder / "worker.log").read_text, lambda text: said in text)
    assert "TypeError" not in log


def versions(house: House) -> dict[tuple[str, str], str]:
    return dict(FeatureStore(house.folder / "features").catalogue.set_index(["session_id", "feature"])["version"])


def test_a_cancelled_run_leaves_nothing_behind(house: House) -> None:
    tool = house.folder / "FeatureExtraction"
    seconds = 10**7 + os.getpid()  # nobody else's on this machine
    tool.write_text(f"#!/bin/sh\nexec sleep {seconds}\n")
    tool.chmod(0o755)
    hanging = house.folder / "hanging.toml"
    hanging.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n')
    run = house.rerun(config=str(hanging), only=["openface"], session_ids=["s0002"])
    (sleeping,) = until(lambda: processes(f"sleep\0{seconds}"), bool)
    family = descent(sleeping)
    assert any("prefect.engine" in command for command in family.values())
    assert any("multiprocessing" in command for command in family.values())  # the Dask worker
    cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}}  # what the button does
    house.api.post(f"flow_runs/{run}/set_state", json=cancelling).raise_for_status()
    # On a busy machine it may be Crashed for a moment before it is that, which the server lets nobody change any more.
    until(lambda: house.read(run)["state"]["name"], lambda name: name == "Cancelled")
    until(lambda: [command for pid, command in family.items() if command_of(pid) == command], lambda left: not left)


def processes(text: str) -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if text in command_of(int(folder.name))]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def descent(pid: int) -> dict[int, str]:
    """A process and its ancestors up to the flow's: their commands."""
    family = {}
    while pid > 1:
        family[pid] = command_of(pid)
        if "prefect.engine" in family[pid]:
            break
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return family


def test_what_is_old_is_pruned(house: House) -> None:
    """The retention of deploy/prefect-server.env: a run 91 days old goes, one of 89 days stays; events after 7."""
    ended = [run["id"] for run in house.runs_of("rerun") if run["state_type"] in FINAL]
    old, younger = ended[:2]

    async def age() -> None:
        import asyncpg

        connection = await asyncpg.connect(house.database.url.replace("+asyncpg", ""))
        for run, days in ((old, 91), (younger, 89)):
            aged = f"now() - interval '{days} days'"
            await connection.execute(f"UPDATE flow_run SET end_time = {aged} WHERE id = '{run}'")
        await connection.execute("UPDATE events SET occurred = now() - interval '8 days' WHERE event LIKE '%Pending'")
        await connection.close()

    asyncio.run(age())
    until(lambda: house.api.get(f"flow_runs/{old}").status_code, lambda status: status == 404)
    assert house.api.get(f"flow_runs/{younger}").status_code == 200
    month = {"occurred": {"since": (datetime.now(UTC) - timedelta(days=30)).isoformat()}}
    wanted = {"filter": month | {"event": {"name": ["prefect.flow-run.Pending"]}}}
    until(lambda: house.api.post("events/filter", json=wanted).json()["total"], lambda total: total == 0)
    assert house.api.post("events/filter", json={"filter": month}).json()["total"] > 0


def automations(house: House) -> dict[str, dict[str, Any]]:
    found = house.api.post("automations/filter", json={}).raise_for_status().json()
    assert len({it["name"] for it in found}) == len(found)  # none is there twice
    return {it["name"]: it for it in found}


def test_deploying_again_changes_in_place(house: House) -> None:
    before = automations(house)
    assert set(before) == {"storyframes dead runs", "storyframes failed", "storyframes silent"}
    extra = {key: before["storyframes dead runs"][key] for key in _BODY}
    extra["trigger"] = {key: value for key, value in extra["trigger"].items() if key != "id"}
    # As it was when each run of a command made one more.
    house.api.post("automations/", json=extra).raise_for_status()
    rule = house.folder / "deploy/automations/dead-runs.yaml"
    rule.write_text(rule.read_text().replace("within: 600", "within: 900"))
    house.deploy(house.folder / "deploy")
    after = automations(house)
    assert set(after) == set(before)
    assert after["storyframes dead runs"]["trigger"]["within"] == 900
    assert after["storyframes failed"] == before["storyframes failed"]
    # With a new id a trigger would forget which runs gave a sign of life.
    house.deploy(house.folder / "deploy")
    assert automations(house) == after


_BODY = ("name", "description", "enabled", "trigger", "actions")


def test_deploying_without_a_variable_changes_nothing(house: House) -> None:
    environment = {name: value for name, value in house.environment.items() if name != "STORYFRAMES_CONFIG"}
    command = [sys.executable, "-m", "flows.cli", "deploy", str(house.folder / "deploy")]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error not set: STORYFRAMES_CONFIG" in done.stderr


_WAITING_TOOL = """#!/bin/sh
# {which}
while [ $# -gt 0 ]; do
    case "$1" in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift
done
name=${{input##*/}}; stem=${{name%.*}}
touch {waits}
until [ -e {go_on} ]; do sleep .2; done
gunzip -c {recorded}/$stem.csv.gz > $out/$stem.csv
"""


def waiting_nightly(house: House, which: str) -> tuple[str, Path]:
    """A nightly run whose tool waits, and the file that makes it go on; the features of each ``which`` are due anew."""
    for begun in house.begun("nightly"):
        house.ended(begun["id"])  # there is place for one
    waits, go_on, tool = (house.folder / f"{name}-{which}" for name in ("waits", "go-on", "FeatureExtraction"))
    tool.write_text(_WAITING_TOOL.format(which=which, waits=waits, go_on=go_on, recorded=house.folder / "recorded"))
    tool.chmod(0o755)
    (house.folder / "storyframes.toml").write_text(
        f'features = ["frames", "openface"]\n[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n'
        "[clips]\nwindow = 15\nstride = 5\n"
    )
    run = nightly(house)
    until(waits.exists, bool)
    return run, go_on


def nightly(house: House) -> str:
    """A nightly run that is due now."""
    path = f"deployments/{house.deployment('nightly')['id']}/create_flow_run"
    return house.api.post(path, json={}).raise_for_status().json()["id"]


ALL_DONE = ("Completed", "2 extracted, 2 up to date, 0 without input, 0 failed")


def how(run: dict[str, Any]) -> tuple[str, str]:
    return run["state"]["name"], run["state"]["message"]


def openface_versions(house: House) -> set[str]:
    return {path.read_text() for path in (house.folder / "features").glob("*/openface/current.json")}


def test_a_run_outlives_a_restart_of_the_server_and_an_outage_of_the_database(house: House) -> None:
    run, go_on = waiting_nightly(house, "outage")
    assert house.read(run)["state"]["name"] == "Running"
    lease = house.read(run)["state"]["state_details"]["deployment_concurrency_lease_id"]
    house.server.restart()
    # What the flow asks every few minutes, and ends itself where it is refused.
    renewed = house.api.post(f"v2/concurrency_limits/leases/{lease}/renew", json={"lease_duration": 300})
    assert renewed.status_code == 204
    assert house.ended(nightly(house))["state"]["name"] == "Cancelled"  # the place is taken
    before = openface_versions(house)
    house.database.stop()
    until(lambda: house.read(run), lambda it: not it)
    go_on.touch()  # what the run has to tell from now on, nobody takes
    until(lambda: openface_versions(house) - before, bool)  # it goes on computing and publishing
    time.sleep(5)
    house.database.start()
    assert how(house.ended(run)) == ALL_DONE


@pytest.mark.nightly  # 35 CPU-s: two runs, a second worker and a deployment
def test_the_night_after_a_machine_died_in_an_outage_runs(house: House) -> None:
    rule = house.folder / "deploy/automations/dead-runs.yaml"
    rule.write_text(re.sub(r"within: \d+", "within: 60", rule.read_text()))  # not ten minutes; a sign comes every 30 s
    house.deploy(house.folder / "deploy")
    dead, go_on = waiting_nightly(house, "dead")
    until(lambda: asyncio.run(signs_of_life(house, dead)), bool)
    house.database.stop()
    # The worker, the flow and its Dask workers.
    for pid in processes_with(f"STORYFRAMES_STUDY={house.folder / 'study'}\0"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    house.database.start()
    go_on.touch()
    with running(house.worker, house.environment, house.folder / "worker-2.log"):
        assert house.ended(nightly(house))["state"]["name"] == "Cancelled"  # its place is taken
        assert how(house.ended(dead)) == ("Crashed", "No sign of life for ten minutes.")
        assert how(house.ended(nightly(house))) == ALL_DONE


async def signs_of_life(house: House, run: str) -> int:
    """How many of a run's the dead-runs automation goes by."""
    import asyncpg

    connection = await asyncpg.connect(house.database.url.replace("+asyncpg", ""))
    try:
        of_run = f"bucketing_key::text LIKE '%{run}%'"
        return await connection.fetchval(f"SELECT count(*) FROM automation_bucket WHERE {of_run}")
    finally:
        await connection.close()
