"""What a run needs on this machine is looked for before anything is begun."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from support.messages import missing, naming
from support.tools.openface_tools import script

from flows.clusters.installation import Installation
from flows.clusters.preflight import Expectations, problems_here
from storyframes.store.layout import leave_mark, open_storage
from storyframes.store.maintenance.garbage import collect
from tasks.extractors.availability import MissingToolError, check_tools, missing_tools
from tasks.extractors.base import ExtractionError
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.tool_folder import room_for_temporary_files
from tasks.study.study_identity import digest_of_ends
from tasks.tools.disk_space import no_room_for_temporary_files

ROOT = Path(__file__).parents[2]


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


@pytest.mark.parametrize(
    ("feature", "package"),
    [
        ("opensmile", "opensmile"),
        ("glove", "gensim"),
        ("sbert", "sentence_transformers"),
        ("resnet50", "torch"),
        ("dope", "torchvision"),
    ],
)
def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, feature: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    (told,) = missing_tools(ExtractorsSettings(), (feature,))
    assert missing(told, feature, package, "pip install", "pipeline") == []


def test_a_reason_of_several_features_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (told,) = missing_tools(ExtractorsSettings(), ("resnet50", "dope"))
    assert missing(told, "resnet50", "dope", "torch") == []


@pytest.mark.slow
def test_without_an_engine_nothing_is_begun(study_copy: Path, tmp_path: Path) -> None:
    store = tmp_path / "features"
    ended = extract(study_copy, store, tmp_path, 'backend = "container"', ["--features", "openface"])
    assert ended.returncode == 2, ended.stderr
    assert missing(ended.stderr, "openface", "no container engine", "podman", "docker") == []
    assert "Traceback" not in ended.stderr
    assert not store.exists()


def test_what_is_not_asked_for_is_not_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = ExtractorsSettings(openface={"backend": "container"})
    check_tools(settings, ("opensmile",))
    with pytest.raises(MissingToolError, match=naming("openface", "no container engine")):
        check_tools(settings, None)


def test_every_worker_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = ExtractorsSettings(openface={"backend": "container"})
    installation = Installation.of_this_process(["numpy"])
    with leave_mark(open_storage(tmp_path)) as mark:
        expected = Expectations(installation, {}, mark, "", settings, ("openface",))
        (problem,) = problems_here(expected)
        assert missing(problem, "openface", "no container engine") == []
        assert problems_here(dataclasses.replace(expected, features=("opensmile",))) == []
        for resources, problems in (({"CPU": 2}, [problem]), ({"GPU": 1}, []), ({"CPU": 1}, [])):
            with (
                LocalCluster(1, processes=False, resources=resources, dashboard_address=None) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                assert list(client.run(problems_here, expected).values()) == [problems]


def test_a_worker_must_work_with_what_the_flow_works_with(tmp_path: Path) -> None:
    here = Installation.of_this_process(["numpy", "av", "no-such-library"])
    assert here.differences_here() == []
    assert set(here.libraries) == {"numpy", "av", "no-such-library"}
    assert here.libraries["no-such-library"] == "absent"
    other = dataclasses.replace(here, code="0" * 64, libraries={**here.libraries, "av": "1.2.3"})
    code, library = other.differences_here()
    assert missing(code, here.version, here.code[:12], "is 000000000000") == []
    assert missing(library, here.libraries["av"], "1.2.3") == []
    (version,) = dataclasses.replace(here, version="9.9", code="0" * 64).differences_here()
    assert missing(version, here.version, "has 9.9") == []


@pytest.mark.slow
def test_the_digest_of_the_code_is_of_the_files(tmp_path: Path) -> None:
    """A checkout in which one line was changed has another digest under the same version; its caches have none."""
    for room in ("storyframes", "tasks", "flows"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    assert digest_in(tmp_path) == digest_in(ROOT) == Installation.of_this_process([]).code
    changed = tmp_path / "tasks" / "extractors" / "opensmile" / "conf" / "eGeMAPSv02.conf"
    changed.write_text(changed.read_text() + ";\n")
    assert digest_in(tmp_path) != digest_in(ROOT)


def digest_in(checkout: Path) -> str:
    code = "from flows.clusters.installation import Installation; print(Installation.of_this_process([]).code)"
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def test_a_worker_must_see_the_same_files_of_the_study_and_the_same_store(tmp_path: Path) -> None:
    settings, installation = ExtractorsSettings(), Installation.of_this_process([])
    video, gone = tmp_path / "a.avi", tmp_path / "b.avi"
    video.write_bytes(b"the recording")
    inputs = {video: digest_of_ends(video), gone: "0" * 64}
    (tmp_path / "features").mkdir()
    with leave_mark(open_storage(tmp_path / "features")) as mark:
        (path,) = (tmp_path / "features").iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        expected = Expectations(installation, inputs, mark, "", settings, ())
        unreadable = f"it cannot read {gone}: mount the study under the same path"
        assert problems_here(expected) == [unreadable]
        video.write_bytes(b"THE RECORDING")
        elsewhere = dataclasses.replace(mark, location=str(tmp_path))
        assert problems_here(dataclasses.replace(expected, mark=elsewhere)) == [
            f"it sees another file at {video}: mount the study there",
            unreadable,
            f"it sees another folder at {tmp_path}: mount the feature store there",
        ]
        nowhere = dataclasses.replace(mark, location=str(tmp_path / "not mounted"))
        assert problems_here(dataclasses.replace(expected, inputs={}, mark=nowhere)) == [
            f"it cannot write to {tmp_path / 'not mounted'}: mount the feature store under the same path"
        ]
    assert not list((tmp_path / "features").iterdir())


def test_the_mark_of_a_killed_run_is_removed_and_that_of_one_that_lives_is_not(store_root: Path) -> None:
    code = (
        "import os, sys; from storyframes.store.layout import open_storage\n"
        "from storyframes.store.layout import leave_mark\n"
        "with leave_mark(open_storage(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, str(store_root)]
    storage = open_storage(store_root)
    subprocess.run(command, cwd=ROOT, check=False)
    (left,) = store_root.glob(".run-*")
    with leave_mark(storage) as one, leave_mark(storage) as other:
        assert not left.exists()
        assert one.is_seen()
        assert other.is_seen()
        assert list(collect(storage, 0)) == []
        assert one.is_seen()
    subprocess.run(command, cwd=ROOT, check=False)
    (left,) = store_root.glob(".run-*")
    assert [removal.path for removal in collect(storage, 0)] == [left.name]
    assert not left.exists()


@pytest.mark.slow
def test_without_the_image_nothing_is_begun(study_copy: Path, tmp_path: Path, engine) -> None:
    path = engine("podman", 'case "$1" in info) exit 0;; esac; echo "Error: image not known" >&2; exit 125\n')
    store = tmp_path / "features"
    ended = extract(study_copy, store, tmp_path, 'backend = "container"', [], path)
    assert ended.returncode == 2
    assert missing(ended.stderr, "podman pull docker.io/algebr/openface@sha256:") == []
    assert not store.exists()


@pytest.mark.slow
def test_without_the_binary_nothing_is_begun(study_copy: Path, tmp_path: Path) -> None:
    store = tmp_path / "features"
    ended = extract(study_copy, store, tmp_path, 'backend = "binary"\nbinary = "/no/such/FeatureExtraction"', [])
    assert ended.returncode == 2
    assert missing(ended.stderr, "[openface] binary = '/no/such/FeatureExtraction'", "executable") == []
    assert not store.exists()


def extract(study: Path, store: Path, folder: Path, openface: str, more: list[str], path: Path | None = None):
    config = folder / "c.toml"
    config.write_text(f"[openface]\n{openface}\n")
    command = [sys.executable, "-m", "flows.cli", "extract", str(study), str(store), "--config", str(config), *more]
    environment = os.environ | {"PATH": str(path or folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_full_disk_under_a_programs_files_is_a_reason_that_says_so(small_disk: Path) -> None:
    with pytest.raises(ExtractionError) as error, room_for_temporary_files():
        (small_disk / "written.csv").write_bytes(bytes(2_000_000))
    assert str(error.value) == no_room_for_temporary_files()
    with pytest.raises(FileNotFoundError), room_for_temporary_files():
        (small_disk / "absent").read_bytes()
