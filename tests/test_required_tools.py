"""What a run needs on this machine is looked for before anything is begun."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from support.openface_tools import script

import storyframes
from flows.clusters.preflight import Expectations, problems_here
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.required_tools import MissingToolError, check_tools, missing_tools

ROOT = Path(__file__).parent.parent


@pytest.fixture
def engine(tmp_path: Path):
    """Makes a PATH in which one engine answers in one way."""

    def make(name: str, body: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        script(folder, body).rename(folder / name)
        return folder

    return make


def test_a_recorded_csv_needs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_tools(ExtractorsSettings(), ("openface", "frames", "stories")) == []


def test_without_an_engine_nothing_is_begun(study_copy: Path, tmp_path: Path) -> None:
    store = tmp_path / "features"
    ended = extract(study_copy, store, tmp_path, 'backend = "container"', ["--only", "openface"])
    assert ended.returncode == 2, ended.stderr
    assert "openface cannot be extracted here: no container engine: looked for podman, docker" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not store.exists()


def test_what_is_not_asked_for_is_not_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = ExtractorsSettings(openface={"backend": "container"})
    check_tools(settings, ("opensmile",))
    with pytest.raises(MissingToolError, match="openface cannot be extracted here: no container engine"):
        check_tools(settings, None)


def test_every_worker_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = ExtractorsSettings(openface={"backend": "container"})
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    expected = Expectations(storyframes.__version__, python, (), str(tmp_path), "", settings, ("openface",))
    (problem,) = problems_here(expected)
    assert problem.startswith("openface cannot be extracted here: no container engine")
    assert problems_here(dataclasses.replace(expected, features=("opensmile",))) == []
    for resources, problems in (({"CPU": 2}, [problem]), ({"GPU": 1}, []), ({"CPU": 1}, [])):
        with (
            LocalCluster(1, processes=False, resources=resources, dashboard_address=None) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            assert list(client.run(problems_here, expected).values()) == [problems]


def test_without_the_image_nothing_is_begun(study_copy: Path, tmp_path: Path, engine) -> None:
    path = engine("podman", 'case "$1" in info) exit 0;; esac; echo "Error: image not known" >&2; exit 125\n')
    store = tmp_path / "features"
    ended = extract(study_copy, store, tmp_path, 'backend = "container"', [], path)
    assert ended.returncode == 2
    assert "is not on this machine: 'podman pull docker.io/algebr/openface@sha256:" in ended.stderr
    assert not store.exists()


def test_without_the_binary_nothing_is_begun(study_copy: Path, tmp_path: Path) -> None:
    store = tmp_path / "features"
    ended = extract(study_copy, store, tmp_path, 'backend = "binary"\nbinary = "/no/such/FeatureExtraction"', [])
    assert ended.returncode == 2
    assert "[openface] binary = '/no/such/FeatureExtraction' is not an executable file" in ended.stderr
    assert not store.exists()


def extract(study: Path, store: Path, folder: Path, openface: str, more: list[str], path: Path | None = None):
    config = folder / "c.toml"
    config.write_text(f"[openface]\n{openface}\n")
    command = [sys.executable, "-m", "flows.cli", "extract", str(study), str(store), "--config", str(config), *more]
    environment = os.environ | {"PATH": str(path or folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
