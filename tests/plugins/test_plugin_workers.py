"""Workers of a cluster and plug-ins: who lacks one is named, and who needs none of them is not troubled."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import ROOT
from support.messages import missing
from support.processes import wait_for
from support.tools.plug_ins import install, installed, write

pytestmark = pytest.mark.slow

# The flow's side, in a process that has the plug-in: plan the features, and ask the workers before any work begins.
ASK = """
import contextlib, json, sys
from pathlib import Path
from types import SimpleNamespace
from distributed import Client
from flows.clusters.connection import ClusterError
from flows.clusters.preflight import only_able_workers
from storyframes.store.layout import create_store
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

scheduler, study, store, *features = sys.argv[1:]
settings = ExtractorsSettings(**{"features": features, "brightness": {"noise": 7}})
plan = plan_extraction(load_study(Path(study)), create_store(store), settings, Selection(("p01-s01",)))
connection = SimpleNamespace(client=lambda: contextlib.closing(Client(scheduler_file=scheduler)))
try:
    with only_able_workers(connection, plan.units, print):
        print("they can")
except ClusterError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def plug_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install("storyframes-example", tmp_path_factory.mktemp("plug-in") / "installed")


@pytest.fixture(scope="module")
def workers(plug_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A scheduler and four workers: with the plug-in, without, with a newer one, and with one that cannot be loaded.

    Gives the scheduler's file.
    """
    folder = tmp_path_factory.mktemp("cluster")
    newer = install("storyframes-example", folder / "newer", "1.1")
    name = {"brightness": "storyframes_example:Brightness"}
    broken = write(
        folder / "broken", "storyframes-example", name, storyframes_example="import a_library_that_is_not_there"
    )
    file = folder / "scheduler.json"
    commands = [(["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"], {})]
    for name, path in {"having": [plug_in], "lacking": [], "newer": [newer], "broken": [broken]}.items():
        arguments = ["worker", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--name", name]
        commands.append((arguments, installed(*path)))
    started = []
    try:
        for arguments, environment in commands:
            command = [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(file)]
            env = {**os.environ, **environment}
            started.append(subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL))
            wait_for(file.exists)
        yield file
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait(60)


def ask(workers: Path, plug_in: Path, study: Path, store: Path, *features: str) -> list[str]:
    command = [sys.executable, "-c", ASK, str(workers), str(study), str(store), *features]
    env = {**os.environ, **installed(plug_in)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def addresses(scheduler_file: Path) -> dict[str, str]:
    """The workers that are there, by name."""
    from distributed import Client

    with Client(scheduler_file=str(scheduler_file)) as client:
        there = client.scheduler_info(n_workers=-1)["workers"]
        return {worker["name"]: address for address, worker in there.items()}


def test_who_lacks_the_plug_in_is_named(workers: Path, plug_in: Path, study_copy: Path, tmp_path: Path) -> None:
    wait_for(lambda: len(addresses(workers)) == 4)
    at = addresses(workers)
    first, *problems = ask(workers, plug_in, study_copy, tmp_path / "features", "frames", "brightness")
    assert missing(first, "workers", "work") == []
    (lacks,) = [problem for problem in problems if "lacks" in problem]
    (newer,) = [problem for problem in problems if "1.1" in problem]
    (broken,) = [problem for problem in problems if "cannot be used" in problem]
    assert len(problems) == 3
    assert missing(lacks, "example 1.0", at["lacking"]) == []
    assert missing(newer, "example 1.1", "example 1.0") == []
    assert newer.endswith(f"({at['newer']})")
    assert missing(broken, "1.0 cannot", "ModuleNotFoundError") == []
    assert broken.endswith(f"({at['broken']})")
    assert ask(workers, plug_in, study_copy, tmp_path / "features", "frames") == ["they can"]


def test_settings_are_read_where_a_plug_in_of_theirs_is_not(plug_in: Path) -> None:
    write_them = (
        "import pickle, sys\nfrom flows.settings import Settings\n"
        "other = {'feature_set': 'eGeMAPSv02'}\n"
        "settings = Settings(brightness={'noise': 7}, features=['brightness'], opensmile=other)\n"
        "assert pickle.loads(pickle.dumps(settings)) == settings\n"
        "sys.stdout.buffer.write(pickle.dumps(settings))"
    )
    env = {**os.environ, **installed(plug_in)}
    done = subprocess.run([sys.executable, "-c", write_them], capture_output=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    settings = pickle.loads(done.stdout)
    assert settings.opensmile.feature_set == "eGeMAPSv02"
    assert settings.features == ("brightness",)
    assert "brightness" not in json.loads(settings.model_dump_json())
