"""The Prefect server that a command starts or uses: reached without a proxy, apart from any other's database, kept
alive, and asked before anything is planned."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.commands import storyframes
from support.messages import missing

from flows.server import deployments
from flows.server import prefect_server as prefect_server_module
from flows.server.configured_server import ServerError, check_server
from flows.server.deployments import DeployError
from flows.server.prefect_server import prefect_server

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """A web server that answers everything alike: where it listens, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.requestline)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_CONNECT = do_PATCH = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()


# --- one that is configured ---


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b'"3.8.0"', "has version 3.8.0"),
        (200, b'"3.99.1"', None),  # Prefect's servers know their older clients
        (200, b'"2.20.1"', "has version 2.20.1"),
        (200, b'"4.0.0"', "has version 4.0.0"),
        (200, b"<html>", "no Prefect server's API"),
        (200, b'{"a": 1}', "no Prefect server's API"),
        (404, b"", "no Prefect server's API (404)"),
        (401, b"", "does not let us in (401): set PREFECT_API_AUTH_STRING"),
        (503, b"", "does not work (503)"),
    ],
)
def test_a_configured_server_is_asked_who_it_is(
    status: int, body: bytes, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import prefect
    from prefect.settings import PREFECT_API_URL, temporary_settings

    if b"3.8.0" in body:
        monkeypatch.setattr(prefect, "__version__", "3.9.1")  # older than this one
    with answering(status, body) as (there, _):
        url = f"http://somebody:secret@{there}/api"
        expected = pytest.raises(ServerError) if says else contextlib.nullcontext()
        with temporary_settings({PREFECT_API_URL: url}), expected as raised:
            check_server(url)
    if says:
        assert says in str(raised.value)
        assert "secret" not in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "url"),
    [
        ("runs", "http://127.0.0.1:9/api"),
        ("extract", "http://127.0.0.1:9/api"),
        ("extract", "127.0.0.1:4200/api"),
    ],
)
def test_a_server_that_cannot_be_reached_is_one_sentence_before_anything_is_extracted(
    demo_study: Path, tmp_path: Path, url: str, command: str
) -> None:
    arguments = [command] if command == "runs" else [command, demo_study, tmp_path / "features"]
    refused = storyframes(*arguments, environment={"PREFECT_API_URL": url})
    *before, said = refused.stderr.splitlines()
    assert refused.returncode == 2
    assert before == ([] if command == "runs" else ["planning …", f"asking the Prefect server at {url} …"])
    assert said.startswith("error ")
    assert refused.stdout == ""


def profile(folder: Path) -> dict[str, str]:
    """The environment of a process with a profile of Prefect that names a server which nobody runs."""
    folder.mkdir()
    lines = ['active = "cloudy"', "[profiles.cloudy]", 'PREFECT_API_URL = "http://127.0.0.1:9/api"']
    (folder / "profiles.toml").write_text("\n".join(lines))
    return {"PREFECT_HOME": str(folder)}


@pytest.mark.slow
def test_a_server_that_only_a_profile_names_is_named_and_does_not_end_what_needs_none(tmp_path: Path) -> None:
    environment, study = profile(tmp_path / "prefect"), small_study(tmp_path / "study")
    asked = storyframes("runs", environment=environment)
    assert asked.returncode == 2
    assert all(word in asked.stderr for word in ("'cloudy'", "profiles.toml", "PREFECT_API_URL= "))
    assert "unset" not in asked.stderr
    arguments = ("extract", study, tmp_path / "features", "--features", "frames", "--json")
    done = storyframes(*arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "'cloudy'" in done.stderr
    assert (tmp_path / "features/s0001/frames/current.json").exists()
    chosen = storyframes(*arguments, environment=environment | {"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert "unset PREFECT_API_URL" in chosen.stderr or chosen.returncode == 0  # nothing is due by now


# --- deployments ---

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLES = ("STUDY", "FEATURES", "CONFIG", "CLUSTER")


@pytest.fixture
def deploying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What 'storyframes deploy' needs in the environment, with a server that nobody runs."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    for name in VARIABLES:
        (tmp_path / name).touch()
        monkeypatch.setenv(f"STORYFRAMES_{name}", str(tmp_path / name))
    monkeypatch.setenv("STORYFRAMES_TIMEZONE", "Europe/Berlin")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        yield


@pytest.mark.usefixtures("deploying")
def test_deploying_without_a_server_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "_make_deployments", None)  # would be called with a server
    with pytest.raises(DeployError, match=r"no Prefect server at http://127\.0\.0\.1:9/api") as refused:
        deployments.deploy(DEPLOY, None)
    assert "unset" not in str(refused.value)


@pytest.mark.usefixtures("deploying")
@pytest.mark.parametrize("name", ["STORYFRAMES_CONFIG", "STORYFRAMES_CLUSTER"])
def test_deploying_refuses_a_file_that_is_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    for wrong in (str(tmp_path / "gone"), str(tmp_path), str(tmp_path / "fifo"), name.partition("_")[2]):
        monkeypatch.setenv(name, wrong)
        with pytest.raises(DeployError, match=re.escape(f"{name}={wrong}: ")):
            deployments.deploy(DEPLOY, None)
    monkeypatch.setenv("STORYFRAMES_CLUSTER", "tls://host:8786")
    monkeypatch.setenv("STORYFRAMES_CONFIG", str(tmp_path / "CONFIG"))
    with pytest.raises(DeployError, match="no Prefect server"):
        deployments.deploy(DEPLOY, None)


# --- one of the command's own ---


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import sys; print('no room for me'); sys.exit(3)", "ended with 3"),
        ("import time; time.sleep(999)", "progress"),
    ],
)
def test_an_own_server_that_does_not_start_says_why_and_what_needs_none(
    body: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefect_server_module, "_STALLED_S", 1.5)
    monkeypatch.setattr(prefect_server_module, "guarded", lambda _: [sys.executable, "-c", body])
    server = prefect_server_module.OwnServer(tmp_path, dict(os.environ), lambda _: None)
    with pytest.raises(ServerError) as refused, server.running():
        raise AssertionError("it does not answer")
    assert all(word in str(refused.value) for word in (reason, "--workers 1", "--part 1/1"))
    assert "None" not in str(refused.value)
    if reason != "progress":
        assert "no room for me" in str(refused.value)


def test_an_own_server_that_starts_slowly_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "import sys, time; from http.server import *\n"
        "class Healthy(BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(200); self.end_headers()\n"
        "time.sleep(0.5)\n"
        "HTTPServer(('127.0.0.1', int(sys.argv[1])), Healthy).serve_forever()"
    )
    said: list[str] = []
    monkeypatch.setattr(prefect_server_module, "_SLOW_START_S", 0.0)
    monkeypatch.setattr(
        prefect_server_module, "guarded", lambda line: [sys.executable, "-c", body, line[line.index("--port") + 1]]
    )
    server = prefect_server_module.OwnServer(tmp_path, dict(os.environ), said.append)
    with server.running():
        assert len(said) == 1
        assert "busy" in said[0]


def test_hosts_that_were_spared_from_the_proxy_still_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from urllib.request import proxy_bypass

    from flows.server.configured_server import spare_loopback

    monkeypatch.setenv("no_proxy", "example.org, .inner")
    monkeypatch.setenv("NO_PROXY", "")
    spare_loopback()
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "example.org,.inner,127.0.0.1,localhost,::1"
    bypassed = [host for host in ("127.0.0.1:4200", "a.inner", "example.com") if proxy_bypass(host)]
    assert bypassed == ["127.0.0.1:4200", "a.inner"]


# --- killed in mid-run ---


def small_study(folder: Path) -> Path:
    from tasks.media.synthesize import SyntheticStudy, write_study

    write_study(folder, SyntheticStudy(sessions=1, seconds=2, width=64, height=48))
    return folder


def own_server_of(pid: int) -> list[int]:
    """The server of a command: its child that is one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            with contextlib.suppress(OSError):
                if b"prefect\0server" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


def run_openface_that_waits(tmp_path: Path, **environment: str) -> subprocess.Popen[str]:
    """An extraction in whose middle OpenFace waits for a file ``go``."""
    study = small_study(tmp_path / "study")
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(
        f"""#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -out_dir) out=$2; shift;; esac; shift; done
touch {tmp_path}/waits; until [ -e {tmp_path}/go ]; do sleep .1; done
gunzip -c {study}/openface/s0001.csv.gz > $out/s0001.csv
"""
    )
    tool.chmod(0o755)
    config = tmp_path / "storyframes.toml"
    config.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n[cluster]\ncpus = 2\n')
    arguments = ["extract", study, tmp_path / "features", "--config", config, "--features", "openface", "--server"]
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_openface(run: subprocess.Popen[str], tmp_path: Path) -> None:
    while not (tmp_path / "waits").exists():
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)


@pytest.mark.slow
def test_a_run_goes_on_when_its_own_server_is_killed_and_leaves_the_database_of_another_alone(
    tmp_path: Path, own_state: Mapping[str, str]
) -> None:
    """Killed before the run begins, which is waited for, and in the middle of it; nothing on loopback goes through a
    proxy. The other's database is called by today's name of the setting and by its former one."""
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    theirs = {name: f"sqlite+aiosqlite:///{tmp_path}/theirs.{number}.db" for number, name in enumerate(names)}
    environment = {**own_state, **theirs, "PREFECT_MESSAGING_BROKER": "nobody.has.this"}
    proxies = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    with answering(502, b"") as (there, asked):
        through_a_proxy = dict.fromkeys(proxies, f"http://{there}") | {"no_proxy": "", "NO_PROXY": "example.org"}
        run = run_openface_that_waits(tmp_path, **environment, **through_a_proxy)
        for line in run.stderr:
            if "starting the run" in line:
                break
        (before,) = own_server_of(run.pid)
        os.kill(before, signal.SIGKILL)
        wait_for_openface(run, tmp_path)
        (server,) = own_server_of(run.pid)
        assert server != before
        os.kill(server, signal.SIGKILL)
        (tmp_path / "go").touch()
        printed, errors = run.communicate()
        assert run.returncode == 0, errors
        assert asked == []
    assert missing(printed, "2 extracted", "0 failed", "the clip index has") == []
    assert "Traceback" not in errors
    (database,) = Path(own_state["XDG_STATE_HOME"]).rglob("prefect.db")
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT state_name FROM flow_run").fetchall() == [("Completed",)]
    assert not list(tmp_path.glob("theirs.*"))


@pytest.mark.slow
@pytest.mark.nightly  # that another server takes over once is tested by day
def test_a_run_whose_server_does_not_stay_alive_ends_with_its_tables_written(tmp_path: Path) -> None:
    run = run_openface_that_waits(tmp_path, PREFECT_CLIENT_MAX_RETRIES="1")
    wait_for_openface(run, tmp_path)
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.2):
            for server in own_server_of(run.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        printed, errors = run.communicate()
    finally:
        over.set()
        killer.join()
    assert run.returncode == 1
    assert "Traceback" not in errors
    assert missing(printed, "Prefect server died", "extract again") == []
    assert (tmp_path / "features/catalogue.parquet").exists()
    assert (tmp_path / "features/clips.parquet").exists()
    assert "1 done" in printed  # the frame times, which the server outlived


@pytest.mark.slow
@pytest.mark.parametrize("home", ["a file", "below a file"])
def test_a_home_that_cannot_be_used_is_one_sentence(tmp_path: Path, demo_study: Path, home: str) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" if home == "a file" else tmp_path / "file" / "home"
    environment = {"XDG_STATE_HOME": "", "HOME": str(place), "PREFECT_HOME": str(tmp_path / "prefect")}
    refused = storyframes("extract", demo_study, tmp_path / "features", "--server", environment=environment)
    assert refused.returncode == 2
    *before, said = refused.stderr.splitlines()
    assert before == ["planning …", "starting a Prefect server …"]
    assert said.startswith("error ")
    assert missing(said, "Prefect", place, "set XDG_STATE_HOME") == []


@pytest.mark.slow
def test_a_home_on_a_read_only_file_system_is_one_sentence(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused = storyframes("runs", environment={"XDG_STATE_HOME": "", "HOME": str(small_disk)})
    assert refused.returncode == 2
    *before, said = refused.stderr.splitlines()
    assert before == []
    assert said.startswith("error ")
    assert missing(said, "Prefect", small_disk, "Read-only file system") == []


@pytest.mark.needs("unshare")
@pytest.mark.slow
@pytest.mark.parametrize("command", [("runs",), ("models", "list")])
def test_a_user_without_a_home_is_one_sentence(command: tuple[str, ...]) -> None:
    nobody_known = ["unshare", "--user", "--map-user=54321"]  # no HOME, and no line in the table of users
    environment = {name: value for name, value in os.environ.items() if name != "HOME" and "XDG" not in name}
    words = [*nobody_known, str(Path(sys.executable).with_name("storyframes")), *command]
    refused = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert missing(refused.stderr.splitlines()[-1], "error ", "home folder", "set HOME") == []
    assert "Traceback" not in refused.stderr


# --- the runs that a server knows ---


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with prefect_server() as url:
        yield url


@pytest.mark.slow
def test_prefects_clients_read_one_certificate(server: str) -> None:
    """A client reads them although the server is reached by plain HTTP, and each task has two clients."""
    from prefect.client.orchestration import get_client

    context = ssl.create_default_context(cafile=os.environ["PREFECT_API_SSL_CERT_FILE"])
    assert context.cert_store_stats()["x509"] == 1
    with get_client(sync_client=True) as client:
        assert client.api_healthcheck() is None
        assert client._client._transport._pool._ssl_context.cert_store_stats()["x509"] == 1


@pytest.mark.slow
def test_only_a_run_whose_process_is_known_to_be_dead_is_ended_and_looking_ends_none(server: str, monkeypatch) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Completed, Running

    from flows.server import recent_runs as runs
    from flows.study import extract_study

    code = "from flows.server.recent_runs import own_tag; print(own_tag())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    dead, alive = printed.strip(), runs.own_tag()
    head, machine, boot, namespace, pid, started = dead.split(":")
    other_boot = f"{head}:{machine}:other:{namespace}:{pid}:{started}"
    other_machine = f"{head}:another:other:{namespace}:{pid}:{started}"
    other_container = f"{head}:{machine}:{boot}:1:{pid}:{started}"
    tagged = {
        "dead": dead, "alive": alive, "restarted": other_boot, "elsewhere": other_machine,
        "in a container": other_container, "untagged": "nightly", "nonsense": f"{head}:x",
    }  # fmt: skip
    with get_client(sync_client=True) as client:
        for name, tag in tagged.items():
            client.create_flow_run(extract_study, name=name, tags=[tag], state=Running())
        client.create_flow_run(extract_study, name="over", tags=[dead], state=Completed())

        def states() -> dict[str, str]:
            return {run.name: run.state.name for run in client.read_flow_runs()}

        before = states()
        monkeypatch.setattr(runs, "_machine", lambda: machine or "this one")
        killed = {"dead"} | ({"restarted"} if machine else set())
        assert {run.name for run in runs.recent_runs(50) if run.state == "Crashed" and run.name in tagged} == killed
        assert states() == before
        assert runs.end_dead_runs() == len(killed)
        assert states() == before | dict.fromkeys(killed, "Crashed")


@pytest.mark.slow
def test_what_is_scheduled_for_tomorrow_is_no_last_run(server: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    from flows.server.recent_runs import recent_runs
    from flows.study import extract_study

    now = datetime.now(UTC)
    with get_client(sync_client=True) as client:
        for name, hours in (("tomorrow", 24), ("late", -1)):
            state = Scheduled(scheduled_time=now + timedelta(hours=hours))
            client.create_flow_run(extract_study, name=name, state=state)
    shown = {run.name for run in recent_runs(200)}
    assert "late" in shown
    assert "tomorrow" not in shown
