"""The doctor tells what is here and what to do about what is not; it names nobody's home, and calls nobody."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version
from support.messages import missing
from support.tools.openface_tools import script
from support.tools.plug_ins import installed, write
from typer.testing import CliRunner

from flows.cli.app import app
from flows.clusters.gpu_sharing import Gpu
from flows.clusters.settings import Slurm, WorkerShape
from flows.doctor import extraction, machine
from flows.settings import Settings
from storyframes.store.layout import create_store
from tasks.models import weights
from tasks.models.libraries import torchvision_mismatch

ROOT = Path(__file__).parents[2]
# Everything that the process connects to, said at its end.
WATCHED = """
import atexit, socket, sys
called = []
for name in ("connect", "connect_ex"):
    def watched(self, address, plain=getattr(socket.socket, name)):
        called.append(address[:2] if isinstance(address, tuple) else "a socket of this machine")
        return plain(self, address)
    setattr(socket.socket, name, watched)
atexit.register(lambda: print(*dict.fromkeys(map(str, called)), sep="; ", file=sys.stderr))
from flows.cli.entry import main
main()
"""


def told(*arguments: object) -> tuple[int, dict[str, tuple[str, str, str]]]:
    done = CliRunner().invoke(app, ["doctor", "--json", *map(str, arguments)])
    return done.exit_code, by_subject(done.stdout)


def by_subject(text: str) -> dict[str, tuple[str, str, str]]:
    return {one["about"]: (one["state"], one["what"], one["advice"]) for one in json.loads(text)["findings"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "someone"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME")
    return folder


def test_it_says_what_is_here_and_how_to_get_the_rest(home: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    glove = weights.MODELS["glove-840b"].path
    glove.parent.mkdir(parents=True)
    glove.write_text("here")
    create_store(tmp_path / "features")
    code, said = told(tmp_path / "features")
    assert code == 0
    assert str(home) not in json.dumps(said)
    assert said["cache"][1].startswith("~/.cache/storyframes, ")
    assert said["models"] == ("here", "glove-840b", "")
    assert missing(said["model glove-6b"][2], "'storyframes models fetch glove-6b'", "862.2 MB") == []
    assert "~/.cache/storyframes/models/DOPE_v1_0_0.pth.tgz" in said["model dope"][2]
    assert "face (docs/mediapipe.md)" in said["faces"][2]
    assert said["processors"][0] == "gap"
    assert "OMP_NUM_THREADS=4096" in said["processors"][1]
    assert said["extractor resnet50"][0] == "gap"
    assert "opensmile" in said["extractors"][1]
    assert said["feature store"][1].startswith(f"{tmp_path}/features, ")
    assert said["Prefect"][0] == "here"
    shown = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "300"})
    assert shown.exit_code == 0
    assert missing(shown.stdout, "→ 'storyframes models fetch resnet50-v1'", "102.5 MB") == []


@pytest.mark.slow
def test_what_was_asked_for_and_cannot_work_ends_with_1(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        'features = ["frames", "opensmile", "openface"]\n[openface]\nbackend = "binary"\nbinary = "/no/such"\n'
    )
    code, said = told("--config", config)
    assert code == 1
    state, what, advice = said["extractor openface"]
    assert (state, missing(what, "[openface] binary = '/no/such'"), advice) == ("fault", [], "")
    assert said["extractor resnet50"][0] == "gap"  # nobody asked for it
    assert "faces" not in said
    config.write_text('features = ["frames", "opensmile"]\n')
    assert told("--config", config)[0] == 0
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "opensmile", None)
        code, said = told("--config", config)
    assert (code, said["extractor opensmile"][0]) == (1, "fault")
    assert "opensmile" not in said["extractors"][1].split(", ")
    code, said = told(tmp_path / "absent")
    assert (code, said["feature store"][0]) == (1, "fault")
    config.write_text("featrues = 1\n")
    done = CliRunner().invoke(app, ["doctor", "--config", str(config)])
    assert (done.exit_code, "featrues: " in done.stderr) == (2, True)


@pytest.mark.slow
def test_it_asks_nobody_but_the_server_that_is_configured(tmp_path: Path) -> None:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))  # and nobody listens there
    port = taken.getsockname()[1]
    odd = write(tmp_path / "installed", "some-plug-in", {"odd": "odd_one:Odd"}, odd_one="raise OSError(5)")
    there = installed(odd, write(tmp_path / "more", "of-commands", {"odder": "more:app"}, "storyframes.commands"))
    script(tmp_path, "echo 'NVIDIA H100, 80 GiB'\n").rename(tmp_path / "nvidia-smi")
    url = f"http://me:sesame@127.0.0.1:{port}/api"
    environment = os.environ | there | {"PATH": str(tmp_path), "PREFECT_API_URL": url, "HOME": str(tmp_path)}
    command = [sys.executable, "-c", WATCHED, "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"('127.0.0.1', {port})"
    said = by_subject(done.stdout)
    state, what, advice = said["Prefect"]
    assert (state, what.endswith(f"server http://127.0.0.1:{port}/api: it cannot be used")) == ("gap", True)
    assert "start it, correct PREFECT_API_URL" in advice
    assert "sesame" not in done.stdout
    assert said["distributions"][1] == "of-commands 1.0, some-plug-in 1.0"
    _, what, advice = said["distribution that cannot be used"]
    assert missing(what, "some-plug-in 1.0: odd", "OSError: 5") == []
    assert "'pip uninstall some-plug-in'" in advice
    assert "NVIDIA H100, 80 GiB" in said["GPU"][1]
    assert said["container engines"][:2] == ("gap", "none")
    assert "apt install podman" in said["container engines"][2]
    taken.close()


def test_what_an_engine_does_not_limit_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("podman", "apptainer", "ch-run"):
        script(tmp_path, "true\n").rename(tmp_path / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("tasks.tools.containers._UNIFIED_CGROUPS", tmp_path / "absent")
    limits = "does not limit memory, processors and processes"
    said = extraction._engines().what
    by_the_batch_system = f"({limits}: the batch system has to)"
    assert said == (
        f"podman ({limits}: cgroups v1 cannot without root), apptainer {by_the_batch_system}, "
        f"charliecloud {by_the_batch_system}"
    )


def of_machine(about: str) -> tuple[str, str, str]:
    (found,) = [one for one in machine.look_at_machine(None) if one.about == about]
    return str(found.state), found.what, found.advice


def test_a_temporary_folder_that_is_not_the_one_that_was_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    state, what, advice = of_machine("temporary folder")
    assert (state, f"TMPDIR={tmp_path}/absent cannot be used" in what) == ("gap", True)
    assert "TMPDIR" in advice
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert of_machine("temporary folder")[0] == "here"


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # Python tries each folder by writing a few bytes
    try:
        state, what, advice = of_machine("temporary folder")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (state, "none that can be written to" in what, "TMPDIR" in advice) == ("gap", True, True)


def test_little_room_and_little_memory_are_gaps(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(machine, "_LITTLE", 2**62)  # more than any machine has
    for about in ("temporary folder", "cache", "memory"):
        state, _, advice = of_machine(about)
        assert (state, bool(advice)) == ("gap", True), about
    monkeypatch.setattr(machine, "_LITTLE", 0)
    create_store(tmp_path / "features")
    monkeypatch.setattr(machine.os, "access", lambda path, mode: False)  # root may write everywhere
    found = {one.about: one for one in machine.look_at_machine(str(tmp_path / "features"))}
    assert (found["cache"].state, "cannot be written to" in found["cache"].what) == ("gap", True)
    assert (found["feature store"].is_fault, bool(found["feature store"].advice)) == (True, True)
    assert found["memory"].state == "here"


@pytest.mark.slow
def test_a_torchvision_that_cannot_be_imported_is_named_with_the_line_that_replaces_it(home: Path) -> None:
    """What the doctor finds without an import is what an import finds."""
    plain = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True, check=False)
    _, said = told()
    assert ("torchvision" in said) == (plain.returncode != 0), plain.stderr
    if plain.returncode:
        assert "operator torchvision::nms does not exist" in plain.stderr
        torch = Version(metadata.version("torch"))
        state, what, advice = said["torchvision"]
        assert (state, f"beside torch {torch}: " in what) == ("gap", True)
        assert f": pip install --force-reinstall torch=={torch.public} torchvision" in advice


def test_a_torchvision_of_another_release_of_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version, needs in (("torch", "2.9.1", ""), ("torchvision", "0.28.0", "Requires-Dist: torch==2.13.0\n")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
    monkeypatch.syspath_prepend(tmp_path)
    assert missing(torchvision_mismatch(), "torchvision 0.28.0", "torch 2.9.1", "torch ==2.13.0") == []


def test_it_says_how_many_processes_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "gpus_here", lambda: [Gpu("NVIDIA H100, 80 GiB", 80 * 2**30)])
    monkeypatch.setattr(extraction, "version", lambda _: "2.13.0")  # a build for GPUs
    for section, shown in (
        ({}, "4 processes share each where a feature has device = 'cuda'"),
        ({"resnet50": {"device": "cuda", "sessions_per_gpu": 3}}, "3 processes share each"),
        ({"resnet50": {"device": "cuda"}}, "4 processes share each"),
    ):
        cluster = Slurm(kind="slurm", cpu=WorkerShape(count=1), gpu=WorkerShape(count=1, cpus=4, memory="64GB"))
        settings = Settings.model_validate({"features": ["resnet50"], **section}).model_copy(
            update={"cluster": cluster}
        )
        assert extraction._gpus(settings).what.endswith(f"(torch 2.13.0); {shown}")
