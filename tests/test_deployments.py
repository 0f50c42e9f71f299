"""The deployments of deploy/prefect.yaml on a real Prefect server, PostgreSQL and process worker, one for all tests."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployment_server import DEPLOY, Database, postgres, postgres_programs, prefect_server_on, running

from storyframes.store import FeatureStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # on a busy machine; about 90 s on an idle one
ROOT = DEPLOY.parent
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


@dataclass
class House:
    """A running installation.

    Attributes:
        folder: of the study, the features, the configuration.
        environment: of everything that talks to the server.
        database: PostgreSQL.
        api: the server's API.
        worker: the command of the process worker.
        messages: what the alerts' webhook received.
    """

    folder: Path
    environment: dict[str, str]
    database: Database
    api: httpx.Client
    worker: list[str]
    messages: list[dict[str, str]] = field(default_factory=list)

    def prefect(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def deploy(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "flows.cli", "deploy", str(folder), *arguments]
        done = subprocess.run(command, env=self.environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def deployment(self, name: str) -> dict[str, Any]:
        return self.api.get(f"deployments/name/extract-study/{name}").raise_for_status().json()

    def request(self, **changes: Any) -> dict[str, Any]:
        return {"parameters": {"request": self.deployment("rerun")["parameters"]["request"] | changes}}

    def rerun(self, **changes: Any) -> str:
        """A run's id; what the button of the form does."""
        path = f"deployments/{self.deployment('rerun')['id']}/create_flow_run"
        return self.api.post(path, json=self.request(**changes)).raise_for_status().json()["id"]

    def runs_of(self, name: str) -> list[dict[str, Any]]:
        wanted = {"deployments": {"name": {"any_": [name]}}, "sort": "EXPECTED_START_TIME_ASC"}
        return self.api.post("flow_runs/filter", json=wanted).raise_for_status().json()

    def subjects(self) -> list[str]:
        return [message["subject"] for message in self.messages]

    def begun(self, name: str) -> list[dict[str, Any]]:
        return [run for run in self.runs_of(name) if run["state_type"] != "SCHEDULED"]

    def ended(self, run: str, timeout_s: float = 240) -> dict[str, Any]:
        """A run once it has ended."""
        return until(lambda: self.api.get(f"flow_runs/{run}").json(), lambda it: it["state_type"] in FINAL, timeout_s)


def until(look: Callable[[], Any], right: Callable[[Any], Any], timeout_s: float = 60) -> Any:
    deadline = time.monotonic() + timeout_s
    while not right(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.4)
    return seen


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    from tasks.synthesize import SyntheticStudy, write_study

    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    folder = tmp_path_factory.mktemp("house")
    write_study(folder / "study", SyntheticStudy(sessions=2, seconds=3, width=160, height=120))
    (csv,) = (folder / "study/openface").glob("s0002*")
    csv.write_text("not what OpenFace writes")  # the nightly run does not ask for it
    (folder / "storyframes.toml").write_text('features = ["frames"]\n[clips]\nwindow = 15\nstride = 5\n')
    (folder / "cluster.yaml").write_text("kind: local\ncpus: 2\n")
    vacuum = {"PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "2"}  # what is old by then is set below
    with postgres(programs) as database, prefect_server_on(database.url, folder, vacuum) as client:
        environment = client | {
            "STORYFRAMES_STUDY": str(folder / "study"),
            "STORYFRAMES_FEATURES": str(folder / "features"),
            "STORYFRAMES_CONFIG": str(folder / "storyframes.toml"),
            "STORYFRAMES_CLUSTER": str(folder / "cluster.yaml"),
            "STORYFRAMES_TIMEZONE": "Europe/Berlin",
        }
        user, password = client["PREFECT_API_AUTH_STRING"].split(":")
        with httpx.Client(base_url=client["PREFECT_API_URL"] + "/", auth=(user, password), timeout=60) as api:
            worker = ["worker", "start", "--pool", "storyframes", "--type", "process", "--install-policy", "never"]
            house = House(folder, environment, database, api, [sys.executable, "-m", "prefect", *worker])
            with running(house.worker, environment, folder / "worker.log"), webhook(house) as url:
                # The worker makes the work pool, which deploying needs.
                until(lambda: api.get("work_pools/storyframes").status_code, lambda status: status == 200)
                house.deploy(copy_of_deploy(folder), "--alerts", notification_block(house, url))
                # Again and again until one has begun: a schedule whose time passed unseen waits for its next.
                schedule = {"schedule": {"interval": 15}, "active": True, "slug": "soon"}
                path = f"deployments/{house.deployment('nightly')['id']}/schedules"
                made = api.post(path, json=[schedule]).raise_for_status().json()
                until(lambda: house.begun("nightly"), bool, 120)
                api.delete(f"{path}/{made[0]['id']}").raise_for_status()
                yield house


@contextlib.contextmanager
def webhook(house: House) -> Iterator[str]:
    """Takes what the alerts send."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            house.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def notification_block(house: House, url: str) -> str:
    """The id of a block that sends alerts there."""
    code = (
        "import sys; from prefect.blocks.notifications import CustomWebhookNotificationBlock as Block\n"
        "block = Block(name='alerts', url=sys.argv[1], json_data={'subject': '{{subject}}', 'body': '{{body}}'})\n"
        "print(block.save('storyframes-alerts'))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code, url], env=house.environment, capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


def copy_of_deploy(folder: Path) -> Path:
    """A copy of deploy/ to change, with an alert of silence that does not take 26 hours."""
    copy = Path(shutil.copytree(DEPLOY, folder / "deploy"))
    alerts = copy / "automations/alerts.yaml"
    alerts.write_text(alerts.read_text().replace("within: 93600", "within: 10"))
    return copy


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"only": ["nose"]}, "request.only[0]"),
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
        assert "openface" in schema["properties"]["only"]["anyOf"][0]["items"]["enum"]


def test_the_nightly_schedule_is_in_the_labs_time(house: House) -> None:
    (schedule,) = [it for it in house.deployment("nightly")["schedules"] if it["slug"] == "nightly"]
    assert schedule["schedule"] == {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "day_or": True}
    assert house.deployment("nightly")["global_concurrency_limit"]["limit"] == 1


def test_a_scheduled_run_fires_and_leaves_its_report(house: House) -> None:
    run = house.ended(house.begun("nightly")[0]["id"])
    assert (run["state"]["name"], run["auto_scheduled"]) == ("Completed", True)
    assert run["state"]["message"] == "2 extracted, 0 up to date, 0 without input, 0 failed"
    assert FeatureStore(house.folder / "features").sessions == ["s0001", "s0002"]
    wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
    left = house.api.post("artifacts/filter", json=wanted).json()
    assert {artifact["key"] for artifact in left} == {"progress", "summary", "extraction", "study"}


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
    tool.write_text("#!/bin/sh\nexec sleep 987654\n")
    tool.chmod(0o755)
    hanging = house.folder / "hanging.toml"
    hanging.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n')
    run = house.rerun(config=str(hanging), only=["openface"], session_ids=["s0002"])
    (sleeping,) = until(lambda: processes("sleep\0987654"), bool, 120)
    family = descent(sleeping)
    assert any("prefect.engine" in command for command in family.values())
    assert any("multiprocessing" in command for command in family.values())  # the Dask worker
    cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}}  # what the button does
    house.api.post(f"flow_runs/{run}/set_state", json=cancelling).raise_for_status()
    state = house.ended(run)["state"]
    assert state["name"] == "Cancelled", state
    until(lambda: [command for pid, command in family.items() if command_of(pid) == command], lambda left: not left, 20)


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


_BODY = ("name", "description", "enabled", "trigger", "actions")


def test_deploying_without_a_variable_changes_nothing(house: House) -> None:
    environment = {name: value for name, value in house.environment.items() if name != "STORYFRAMES_CONFIG"}
    command = [sys.executable, "-m", "flows.cli", "deploy", str(house.folder / "deploy")]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error not set: STORYFRAMES_CONFIG" in done.stderr
