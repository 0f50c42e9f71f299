"""An installation as docs/operations.md describes it: PostgreSQL, a Prefect server, a process worker, deployments."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

import httpx

from support.processes import wait_for
from support.servers.deployment_server import (
    DEPLOY,
    Database,
    PrefectServer,
    postgres,
    postgres_programs,
    prefect_server_on,
    running,
)

ROOT = DEPLOY.parent
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


@dataclass
class House:
    """A running installation.

    Attributes:
        folder: of the study, the features, the configuration.
        environment: of everything that talks to the server.
        database: PostgreSQL.
        server: Prefect's, on it.
        api: the server's API.
        worker: the command of the process worker.
        messages: what the alerts' webhook received.
    """

    folder: Path
    environment: dict[str, str]
    database: Database
    server: PrefectServer
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

    def ended(self, run: str) -> dict[str, Any]:
        """A run once it has ended."""
        return until(lambda: self.read(run), lambda it: it.get("state_type") in FINAL)

    def read(self, run: str) -> dict[str, Any]:
        """A run; nothing of it while the server or its database is away."""
        try:
            answer = self.api.get(f"flow_runs/{run}")
        except httpx.TransportError:  # the server was about to answer when its database or it itself went away
            return {}
        return answer.json() if answer.status_code == 200 else {}


def until(look: Callable[[], Any], right: Callable[[Any], Any]) -> Any:
    seen: list[Any] = []

    def is_right() -> bool:
        seen[:] = [look()]
        if not right(seen[0]):
            time.sleep(1)  # each look costs the server some of a processor
            return False
        return True

    wait_for(is_right)
    return seen[0]


@contextlib.contextmanager
def deployed_house(folder: Path) -> Iterator[House]:
    """One whose first nightly run has begun; gone with the block."""
    from tasks.media.synthesize import SyntheticStudy, write_study

    programs = postgres_programs()
    assert programs is not None, 'mark the test with needs("postgresql")'
    write_study(folder / "study", SyntheticStudy(sessions=2, seconds=3, width=160, height=120))
    shutil.copytree(folder / "study/openface", folder / "recorded")
    (csv,) = (folder / "study/openface").glob("s0002*")
    csv.write_text("not what OpenFace writes")  # the nightly run does not ask for it
    (folder / "storyframes.toml").write_text('features = ["frames"]\n[clips]\nwindow = 15\nstride = 5\n')
    (folder / "cluster.yaml").write_text("kind: local\ncpus: 2\n")
    vacuum = {"PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "10"}  # what is old by then is set below
    with postgres(programs) as database, prefect_server_on(database.url, folder, vacuum) as server:
        client = server.environment
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
            house = House(folder, environment, database, server, api, [sys.executable, "-m", "prefect", *worker])
            with running(house.worker, environment, folder / "worker.log"), webhook(house) as url:
                # The worker makes the work pool, which deploying needs.
                until(lambda: api.get("work_pools/storyframes").status_code, lambda status: status == 200)
                house.deploy(copy_of_deploy(folder), "--alerts", notification_block(house, url))
                # Again and again until one has begun: a schedule whose time passed unseen waits for its next.
                schedule = {"schedule": {"interval": 15}, "active": True, "slug": "soon"}
                path = f"deployments/{house.deployment('nightly')['id']}/schedules"
                made = api.post(path, json=[schedule]).raise_for_status().json()
                until(lambda: house.begun("nightly"), bool)
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
