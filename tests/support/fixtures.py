"""Fixtures of all tests, also of plug-ins': a private home for caches, the demo study, small studies, servers."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from support.needs import OF_FIXTURES, lacking

if TYPE_CHECKING:
    from support.systems.installed import Installed

pytest_plugins = ["support.costs"]
ROOT = Path(__file__).parents[2]
hypothesis.settings.register_profile("any machine", deadline=None)  # a busy machine takes its time
hypothesis.settings.load_profile("any machine")
_prefixes = itertools.count()
os.environ.setdefault("COLUMNS", "1000")  # tables as wide as their content, so that no cell is folded

SHARED = Path(os.environ.get("STORYFRAMES_SHARED", ROOT.parent / "shared"))

# A shell lets what it starts in the background ignore SIGINT, and so would every command that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Caches and state of the tests lie apart from the user's; nothing configured outside gets in."""
    home = tmp_path_factory.mktemp("home")
    if prepared := os.environ.get("STORYFRAMES_TEST_STATE"):  # by tests/run.py
        shutil.copytree(prepared, home / "state")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    patch.setenv("XDG_STATE_HOME", str(home / "state"))
    patch.delenv("PREFECT_API_URL", raising=False)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """What the environment of a command needs to use a common server: for commands that are not about theirs."""
    from support.servers.one_server import GIVEN, one_server

    if given := os.environ.get(GIVEN):
        yield json.loads(given)
        return
    with one_server(tmp_path_factory.mktemp("server")) as environment:
        yield environment


@pytest.fixture
def own_state(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a command that has a server of its own, and a folder for its state.

    Its database is a copy of the one that tests/run.py made; in an empty folder, or in the common one while this
    process uses that, it would be made anew, for five seconds of a processor.
    """
    folder = tmp_path / "own-state"
    if prepared := os.environ.get("STORYFRAMES_TEST_STATE"):
        shutil.copytree(prepared, folder)
    return {"XDG_STATE_HOME": str(folder)}


@pytest.fixture
def private() -> Iterator[None]:
    """What is made is its owner's alone, as with the command in a process of its own."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def only_loopback() -> Iterator[None]:
    """Whatever tries to speak to another machine fails the test."""
    patch = pytest.MonkeyPatch()
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            raise AssertionError(f"a connection to {address}")
        connect(self, address)

    patch.setattr(socket.socket, "connect", guarded)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded OpenFace output and its failures, which only developers and CI have."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"the shared reference data is not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def demo_study() -> Path:
    return ROOT / "demo" / "study"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout in an environment of its own. Made once for all processes: leave it as it is."""
    from support.systems.installed import install, made_once

    made: Installed = made_once("installed", tmp_path_factory.mktemp("installed"), install)
    return made


@pytest.fixture(scope="session")
def extracted_demo(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A copy of what ``storyframes demo`` of the installed wheel made, and how that ended.

    It is extracted once for all processes of tests, and copied once for each: leave it as it is.

    The demo keeps a study and a configuration that are there. This one's recordings have 5 frames a second, of 15, and
    its windows as many fewer: of 1,080 frames the network takes a minute of a processor. It has a single processor, so
    all is done in the command's own process, without a server and workers that each convert the network (tests/flows
    has those).
    """
    from support.media.fewer_frames import keep_every
    from support.systems.installed import clean, made_once

    def extract(folder: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
        code = "from pathlib import Path; from flows.cli.extract import copy_demo; copy_demo(Path('storyframes-demo'))"
        subprocess.run([str(installed.python), "-c", code], cwd=folder, env=clean(), check=True)
        demo = folder / "storyframes-demo"
        keep_every(demo / "study", 3)
        with (demo / "storyframes.toml").open("a") as file:
            file.write("\n[clips]\nwindow = 40\nstride = 5\n\n[cluster]\ncpus = 1\n")
        command = [str(installed.command), "demo"]
        return demo, subprocess.run(command, capture_output=True, text=True, cwd=folder, env=clean())

    made, result = made_once("newcomer", tmp_path_factory.mktemp("newcomer"), extract)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("copied") / made.name)), result


@pytest.fixture
def study_copy(demo_study: Path, tmp_path: Path) -> Path:
    """A copy of the demo study to break."""
    return Path(shutil.copytree(demo_study, tmp_path / "study"))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    from flows.server.prefect_server import prefect_server

    with prefect_server() as url:
        yield url


@pytest.fixture(scope="module")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tasks.media.synthesize import SyntheticStudy, write_study

    folder = tmp_path_factory.mktemp("study") / "study"
    write_study(folder, SyntheticStudy(sessions=2, seconds=3, width=160, height=120))
    return folder


@pytest.fixture(scope="module")
def s3() -> Iterator[Mapping[str, str]]:
    """The environment of an S3 server with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    boto3.client(
        "s3", endpoint_url=environment["AWS_ENDPOINT"], region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    ).create_bucket(Bucket="lab")  # fmt: skip
    patch = pytest.MonkeyPatch()
    for name, value in environment.items():
        patch.setenv(name, value)
    yield environment
    patch.undo()
    server.stop()


@pytest.fixture
def url(s3: Mapping[str, str]) -> str:
    return f"s3://lab/study-{next(_prefixes)}/features"


@pytest.fixture
def store_root(tmp_path: Path) -> Path:
    from storyframes.store.layout import create_store

    root = tmp_path / "features"
    create_store(root)
    return root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


_skipped: list[str] = []
_NOWHERE_AT_HAND = (
    "a torchvision whose compiled operators load beside this torch",
    "this machine: a GPU",
    "pictures of people",  # fetched for the nightly tests alone
    "recorded voices and models of speech",  # fetched for the nightly tests alone
    "the validator of BIDS",  # 121 MB for one test
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose fixtures need something, so that ``-m "not needs"`` leaves them out as well."""
    for item in items:
        names = [need for fixture in getattr(item, "fixturenames", ()) for need in OF_FIXTURES.get(fixture, ())]
        if names:
            item.add_marker(pytest.mark.needs(*names))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that lacks something, before any of its fixtures is made."""
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    if lacks := sorted({lack for name in names if (lack := lacking(name))}):
        pytest.skip(f"not on this machine: {', '.join(lacks)}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not any(reason in str(report.longrepr) for reason in _NOWHERE_AT_HAND):
        _skipped.append(f"{report.nodeid}: {report.longrepr}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything a test needs is there (CI), a skip hides something: STORYFRAMES_NO_SKIPS makes it a failure."""
    if _skipped and os.environ.get("STORYFRAMES_NO_SKIPS"):
        print("\nskipped, but STORYFRAMES_NO_SKIPS is set:", *_skipped, sep="\n  ")
        session.exitstatus = 1
