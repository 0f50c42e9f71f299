"""The container engines of this machine, and a stand-in for OpenFace in them. A plug-in of pytest, for its fixtures."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from support.needs import lacking
from support.processes import wait_for
from support.tools import standin
from support.tools.openface_tools import extract
from tasks.extract import Outcome
from tasks.tools.containers import ContainerJob, Engine, EngineName, Limits, Mount
from tasks.tools.hpc_engines import find_engine
from tasks.tools.tool_process import ToolResult

LIMITS = Limits(cpus=2, memory_gib=0.5, timeout_s=60)


def has_docker() -> bool:
    return (
        shutil.which("docker") is not None and subprocess.run(["docker", "info"], capture_output=True).returncode == 0
    )


@pytest.fixture(scope="session", params=["podman", *(["docker"] if has_docker() else [])])
def installed_engine(request: pytest.FixtureRequest) -> Engine:
    """An engine that can run a container here."""
    return find_engine(EngineName(request.param))


@pytest.fixture
def engine(installed_engine: Engine) -> Iterator[Engine]:
    """An engine that no other process of tests uses now: each looks at all containers and removes those of the dead."""
    with (Path(tempfile.gettempdir()) / f"storyframes-containers-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield installed_engine


@cache
def runtime_that_works() -> str:
    """Choose a runtime with which podman runs a container here; why there is none, or ''.

    Debian's crun does not know every layout of cgroups; runc does.
    """
    if lacks := ", ".join(filter(None, map(lacking, ("podman", "busybox")))):
        return lacks
    image = standin.build("podman")
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    trial = ["podman", "run", "--rm", "--network=none", *limits, image, "/bin/echo", "ok"]
    if subprocess.run(trial, capture_output=True).returncode == 0:
        return ""
    folder = Path(tempfile.mkdtemp(prefix="storyframes-tests-containers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    configuration = folder / "containers.conf"
    configuration.write_text('[engine]\nruntime = "runc"\n')
    os.environ["CONTAINERS_CONF"] = str(configuration)
    done = subprocess.run(trial, capture_output=True, text=True)
    return f"a runtime for podman: {done.stderr.strip()[-300:]}" if done.returncode else ""


@pytest.fixture(scope="session")
def image_of(installed_engine: Engine) -> Callable[..., str]:
    """The stand-in's image for a mode."""
    built: dict[str, str] = {}

    def get(mode: str = "replay") -> str:
        if mode not in built:
            built[mode] = standin.build(installed_engine.name, mode)
        return built[mode]

    return get


def containers(engine: Engine) -> list[str]:
    """The names of our containers, whatever their state."""
    command = [engine.executable, "ps", "--all", "--format", "{{.Names}}"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if name.startswith("storyframes-")]


def run(
    engine: Engine, image: str, video: Path, output: Path, limits: Limits = LIMITS, name: str = "storyframes-test"
) -> ToolResult:
    """The stand-in on this video, in a container of this name."""
    output.mkdir(exist_ok=True)
    job = ContainerJob(
        name=name,
        command=(standin.BINARY, "-f", "/input/video.avi", "-out_dir", "/output"),
        inputs=(Mount(video, "/input/video.avi"),),
        output=Mount(output, "/output"),
        limits=limits,
    )
    return engine.run(engine.resolve(image), job)


def extract_in(engine: Engine, image: str, study: Path, root: Path, **settings: object) -> Outcome:
    """What became of openface where the stand-in runs in this engine."""
    settings = {"timeout_s": 60, "timeout_s_per_video_s": 0.01, "memory_gib": 0.5, "binary": standin.BINARY} | settings
    return extract(study, root, "p01-s01", backend="container", image=image, engine=engine.name, **settings)


WORKER = """
    import sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from support.tools.container_engines import run
    from tasks.tools.containers import EngineName
    from tasks.tools.hpc_engines import find_engine
    engine = find_engine(EngineName({engine!r}))
    run(engine, {image!r}, Path({video!r}), Path({out!r}), name={name!r})
"""


def start_worker(engine: Engine, image: str, video: Path, out: Path, name: str) -> subprocess.Popen[bytes]:
    """A process that runs the stand-in; its container is there when this returns."""
    code = WORKER.format(
        tests=str(Path(__file__).parents[2]),
        engine=str(engine.name),
        image=image,
        video=str(video),
        out=str(out),
        name=name,
    )
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], start_new_session=True)
    wait_for(lambda: name in containers(engine))
    return worker
