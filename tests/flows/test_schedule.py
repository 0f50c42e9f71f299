"""A scheduled run of the deployments in deploy/, on a Prefect server with SQLite; test_deployments.py has all of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest
from support.processes import wait_for
from support.servers.deployed_house import FINAL, ROOT, until
from support.servers.deployment_server import DEPLOY, prefect_server_on, running

from storyframes.store.feature_store import FeatureStore


def answered(request: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer to a request, made again while the server says 503: its SQLite file is locked, try again."""
    answers = [request()]
    wait_for(lambda: answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE or answers.append(request()))
    return answers[-1].raise_for_status()


@pytest.mark.slow
@pytest.mark.end_to_end
def test_a_scheduled_run_extracts_the_study(small_study: Path, tmp_path: Path, own_state: Mapping[str, str]) -> None:
    config, cluster = tmp_path / "storyframes.toml", tmp_path / "cluster.yaml"
    config.write_text('features = ["frames"]\n[clips]\nwindow = 15\nstride = 5\n')
    cluster.write_text("kind: local\ncpus: 1\n")
    home = Path(own_state["XDG_STATE_HOME"], "storyframes/prefect")  # a prepared database has this very name
    home.mkdir(parents=True, exist_ok=True)
    with prefect_server_on(f"sqlite+aiosqlite:///{home}/prefect.db", home, {}) as server:
        environment = server.environment | {
            "STORYFRAMES_STUDY": str(small_study),
            "STORYFRAMES_FEATURES": str(tmp_path / "features"),
            "STORYFRAMES_CONFIG": str(config),
            "STORYFRAMES_CLUSTER": str(cluster),
            "STORYFRAMES_TIMEZONE": "Europe/Berlin",
        }
        user, password = environment["PREFECT_API_AUTH_STRING"].split(":")
        with httpx.Client(base_url=environment["PREFECT_API_URL"] + "/", auth=(user, password), timeout=60) as api:
            answered(lambda: api.post("work_pools/", json={"name": "storyframes", "type": "process"}))
            command = [sys.executable, "-m", "flows.cli", "deploy", str(DEPLOY)]
            done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            nightly = answered(lambda: api.get("deployments/name/extract-study/nightly")).json()
            assert [schedule["schedule"]["cron"] for schedule in nightly["schedules"]] == ["0 2 * * *"]
            # Again and again until one has begun: a schedule whose time passed unseen waits for its next.
            soon = {"schedule": {"interval": 15}, "active": True, "slug": "soon"}
            schedules = f"deployments/{nightly['id']}/schedules"
            (made,) = answered(lambda: api.post(schedules, json=[soon])).json()

            def begun() -> list[dict]:
                wanted = {"deployments": {"name": {"any_": ["nightly"]}}, "sort": "EXPECTED_START_TIME_ASC"}
                runs = answered(lambda: api.post("flow_runs/filter", json=wanted)).json()
                return [run for run in runs if run["state_type"] not in ("SCHEDULED", "CANCELLED")]

            worker = ["worker", "start", "--pool", "storyframes", "--type", "process", "--install-policy", "never"]
            with running([sys.executable, "-m", "prefect", *worker], environment, tmp_path / "worker.log"):
                until(begun, bool)
                answered(lambda: api.delete(f"{schedules}/{made['id']}"))
                run, *_ = until(begun, lambda runs: runs and runs[0]["state_type"] in FINAL)
    assert (run["state"]["name"], run["auto_scheduled"]) == ("Completed", True), (tmp_path / "worker.log").read_text()
    assert run["state"]["message"] == "2 extracted, 0 up to date, 0 without input, 0 failed"
    store = FeatureStore(tmp_path / "features")
    assert store.sessions == ["s0001", "s0002"]
    assert set(store.clips()["session_id"]) == {"s0001", "s0002"}
