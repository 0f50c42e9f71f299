"""Real containers on every engine that is installed: hardened, verified, and never a leftover."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing, naming
from support.processes import children, wait_for
from support.tools import standin
from support.tools.container_engines import LIMITS, containers, extract_in, run, start_worker
from support.tools.openface_tools import extract, open_values

from tasks.tools.containers import ContainerError, ContainerJob, EngineName, Mount
from tasks.tools.hpc_engines import find_engine

pytestmark = pytest.mark.slow
pytest_plugins = ["support.tools.container_engines"]


@pytest.fixture
def video(demo_study: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(demo_study / "videos/p01-s01.avi", tmp_path / "video.avi"))


# --- hardened --------------------------------------------------------------------------------------------------------


def test_what_is_inside_can_do_nothing_but_write_its_output(engine, image_of, video: Path, tmp_path: Path) -> None:
    before = video.read_bytes()
    printed = run(engine, image_of("probe"), video, tmp_path / "out").output
    lines = printed.splitlines()
    assert lines[1] != "0", printed  # not root
    assert "CapEff:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines
    assert "lo" in lines
    assert "eth0" not in printed
    assert "touch: /x: Read-only file system" in lines
    assert "tmp is writable" in lines
    assert missing(printed, "/input/video.avi: Read-only") == []
    assert "can't connect to remote host" in printed
    assert "threads 2" in lines
    assert video.read_bytes() == before


def test_a_proxys_password_does_not_go_in(
    engine, image_of, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy:3128")
    job = ContainerJob(
        name="storyframes-test",
        command=("/bin/sh", "-c", "set"),
        inputs=(Mount(video, "/input/video.avi"),),
        output=Mount(tmp_path, "/output"),
        limits=LIMITS,
    )
    result = engine.run(engine.resolve(image_of()), job)
    assert "OMP_NUM_THREADS='2'" in result.output
    assert "secret" not in result.output


def test_the_output_belongs_to_a_user_that_is_not_root(engine, image_of, video: Path, tmp_path: Path) -> None:
    assert run(engine, image_of(), video, tmp_path / "out").exit_code == 0
    status = (tmp_path / "out/video.csv").stat()
    assert status.st_uid == (os.geteuid() or 65534)


def test_any_file_name_can_be_an_input(engine, image_of, tmp_path: Path) -> None:
    names = ["two words", "a,b", "x:y", "it's", 'say "hi"', "naïve-Ω", "$(id)", "-f", "a%20b"]
    paths = [tmp_path / name / f"{name}.avi" for name in names]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(f"recording {number}\n")
        path.chmod(0o644)  # whatever a test before left as the umask
    (tmp_path / "out").mkdir()
    job = ContainerJob(
        name="storyframes-test",
        command=("/bin/sh", "-c", "cat /input/*"),
        inputs=tuple(Mount(path, f"/input/{number}.avi") for number, path in enumerate(paths)),
        output=Mount(tmp_path / "out", "/output"),
        limits=LIMITS,
    )
    result = engine.run(engine.resolve(image_of()), job)
    assert result.output.splitlines() == [f"recording {number}" for number in range(len(names))]


def test_an_input_that_does_not_exist_is_not_made(engine, image_of, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(engine, image_of(), tmp_path / "absent.avi", tmp_path / "out")
    assert not (tmp_path / "absent.avi").exists()


@pytest.mark.needs("root")
def test_a_recording_that_only_root_can_read_is_refused(engine, image_of, video: Path, tmp_path: Path) -> None:
    video.chmod(0o600)
    with pytest.raises(ContainerError, match=naming("video.avi", "root")):
        run(engine, image_of(), video, tmp_path / "out")


# --- pinned ----------------------------------------------------------------------------------------------------------


def test_an_image_must_be_pinned_and_here(engine, image_of) -> None:
    image = engine.resolve(image_of())
    assert image.reference == image_of()
    with pytest.raises(ContainerError, match="is not pinned"):
        engine.resolve("docker.io/algebr/openface:latest")
    with pytest.raises(ContainerError, match=naming(f"{engine.name} pull")):
        engine.resolve(f"docker.io/algebr/openface@sha256:{'0' * 64}")


def test_another_image_is_another_fingerprint(engine, image_of, study_copy: Path, store_root: Path) -> None:
    assert extract_in(engine, image_of(), study_copy, store_root).status == "done"
    assert extract_in(engine, image_of(), study_copy, store_root).skipped
    assert not extract_in(engine, image_of("noisy"), study_copy, store_root).skipped


def test_another_program_of_the_same_image_is_another_fingerprint(engine, image_of, study_copy, store_root) -> None:
    assert extract_in(engine, image_of(), study_copy, store_root).status == "done"
    other = extract_in(
        engine, image_of(), study_copy, store_root, binary="/opt/openface/../openface/bin/FeatureExtraction"
    )
    assert (other.status, other.skipped) == ("done", False)


# --- never a leftover ------------------------------------------------------------------------------------------------


def test_nothing_is_left_after_a_run_and_after_a_timeout(engine, image_of, video: Path, tmp_path: Path) -> None:
    assert containers(engine) == []
    assert not run(engine, image_of(), video, tmp_path / "out").timed_out
    assert containers(engine) == []
    result = run(engine, image_of("hang"), video, tmp_path / "out", dataclasses.replace(LIMITS, timeout_s=2))
    assert result.timed_out
    assert containers(engine) == []


@pytest.mark.parametrize("deadly", [signal.SIGTERM, signal.SIGKILL])
def test_the_container_goes_with_its_worker(engine, image_of, video: Path, tmp_path: Path, deadly) -> None:
    worker = start_worker(engine, image_of("hang"), video, tmp_path / "out", "storyframes-orphan")
    assert containers(engine) == ["storyframes-orphan"]
    worker.send_signal(deadly)
    worker.wait()
    wait_for(lambda: containers(engine) == [])


def test_when_the_reaper_dies_too_the_next_run_cleans_up(engine, image_of, video: Path, tmp_path: Path) -> None:
    worker = start_worker(engine, image_of("hang"), video, tmp_path / "out", "storyframes-orphan")
    for reaper in children(worker.pid, "reaper_process.py"):
        os.kill(reaper, signal.SIGKILL)
    worker.kill()
    worker.wait()
    assert containers(engine) == ["storyframes-orphan"]  # nobody is left to remove it
    assert run(engine, image_of(), video, tmp_path / "out").exit_code == 0
    assert containers(engine) == []


def test_a_living_workers_container_is_left_alone(engine, image_of, video: Path, tmp_path: Path) -> None:
    worker = start_worker(engine, image_of("hang"), video, tmp_path / "other", "storyframes-alive")
    try:
        assert run(engine, image_of(), video, tmp_path / "out").exit_code == 0
        assert engine.sweep() == []
        assert containers(engine) == ["storyframes-alive"]
    finally:
        worker.terminate()
        worker.wait()
    wait_for(lambda: containers(engine) == [])


# --- verified output -------------------------------------------------------------------------------------------------


def test_the_container_and_the_csv_publish_identical_arrays(engine, image_of, study_copy, store_root, tmp_path) -> None:
    from storyframes.store.feature_store import FeatureStore
    from storyframes.store.layout import create_store

    outcome = extract_in(engine, image_of(), study_copy, store_root)
    assert (str(outcome.status), outcome.rows) == ("done", 360)
    other = tmp_path / "other"
    create_store(other)
    extract(study_copy, other, "p01-s01")
    np.testing.assert_array_equal(open_values(store_root, "p01-s01"), open_values(other, "p01-s01"))
    provenance = FeatureStore(store_root).attributes("p01-s01", "openface")["provenance"]
    assert provenance["models"] == {"image": image_of().removeprefix("sha256:")}


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("no_csv", "p01-s01.avi: FeatureExtraction ended with 0 and left no CSV"),
        ("few_rows", "video.csv: has 100 rows, but 360 frames of the video decode"),
        ("cut_line", "(was the disk full?) (FeatureExtraction ended with 0)"),
        ("abort", "p01-s01.avi: FeatureExtraction ended with 134; it printed last: Attempting to read"),
        ("killed_late", "killed (137): it ran out of memory if the limit of 0.5 GiB was too little"),
        (
            "raw_intensities",
            "video.csv: row 2 has AU01_r = -0.5, and intensities are 0 to 5: OpenFace was ended before",
        ),
        ("killed", "killed (137): it ran out of memory if the limit of 0.5 GiB was too little"),
        ("out_of_memory", "(137): it ran out of memory if the limit of 0.5 GiB was too little ([openface] memory_gib)"),
        ("hang", "was stopped after 2 s, all the time it had ([openface] timeout_s)"),
        ("link", "left no CSV"),
    ],
)
def test_every_way_to_fail_says_so_and_publishes_nothing(
    engine, image_of, study_copy: Path, store_root: Path, mode: str, reason: str
) -> None:
    settings = {"timeout_s": 2} if mode == "hang" else {}
    outcome = extract_in(engine, image_of(mode), study_copy, store_root, **settings)
    assert outcome.status == "failed"
    assert reason in outcome.reason
    assert str(study_copy) not in outcome.reason
    assert "/tmp/" not in outcome.reason
    assert not (store_root / "p01-s01/openface/current.json").exists()
    assert containers(engine) == []


@pytest.mark.parametrize("mode", ["foreign_owner", "noisy"])
def test_what_is_harmless_is_not_a_failure(engine, image_of, study_copy: Path, store_root: Path, mode: str) -> None:
    assert extract_in(engine, image_of(mode), study_copy, store_root).status == "done"


def test_two_sessions_at_once_do_not_disturb_each_other(engine, image_of, study_copy, store_root) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from tasks.extract import extract as do_work
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection
    from tasks.study.load import load_study

    openface = {"backend": "container", "image": image_of(), "engine": engine.name, "binary": standin.BINARY}
    plan = plan_extraction(
        load_study(study_copy), store_root, ExtractorsSettings(openface=openface), Selection(only=("openface",))
    )
    for work in plan.units:
        if work.features == ("frames",):
            do_work(work)
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(do_work, [work for work in plan.units if work.features == ("openface",)]))
    assert [str(outcome.status) for (outcome,) in outcomes] == ["done"] * 3


def test_trying_openface_out(engine, image_of, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        f'[openface]\nbackend = "container"\nengine = "{engine.name}"\nimage = "{image_of()}"\n'
        f'binary = "{standin.BINARY}"\n'
    )
    command = [sys.executable, "-m", "flows.cli", "models", "check", "openface", "--config", str(config)]
    as_json, shown = (
        subprocess.run([*command, *more], capture_output=True, text=True, cwd=Path(__file__).parents[2])
        for more in (["--json"], [])
    )
    assert (as_json.returncode, shown.returncode) == (0, 0), shown.stderr
    assert "714" in json.loads(as_json.stdout)["columns"]
    words = " ".join(shown.stdout.replace("│", " ").split())
    for told in (
        "2.0.x",
        "columns 714",
        "frames 30, a face in 100%",
        "after a start of",
        "two runs identical",
        image_of()[:60],
    ):
        assert told in words, words


# --- finding an engine -----------------------------------------------------------------------------------------------


def test_no_engine_says_what_was_looked_for_and_how_to_get_each(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContainerError) as error:
        find_engine()
    for words in (
        "looked for podman, docker, apptainer, singularity, charliecloud in",
        "apt install podman",
        "docs.docker.com",
        "apptainer.org",
    ):
        assert words in str(error.value)
    with pytest.raises(ContainerError, match=naming("PATH", "install")):
        find_engine(EngineName.DOCKER)


def test_engines_are_found_in_their_order_unless_configured(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("apptainer", "docker"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find_engine().name is EngineName.DOCKER
    assert find_engine(EngineName.APPTAINER).executable == str(tmp_path / "apptainer")


def test_an_absent_engine_fails_the_feature_alone(study_copy: Path, store_root: Path, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = extract(study_copy, store_root, "p01-s01", backend="container")
    assert "no container engine" in outcome.reason
