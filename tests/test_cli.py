"""The commands as a person runs them, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent


def storyframes(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder or ROOT, env=environment, timeout=280)


def test_help_and_version() -> None:
    shown = storyframes("--help")
    assert shown.returncode == 0
    for command in "demo check extract index status verify gc models synthesize".split():
        assert command in shown.stdout
    assert re.fullmatch(r"storyframes \d+\.\d+\.\d+\n", storyframes("--version").stdout)


def test_check_a_good_and_a_bad_study(study_copy: Path) -> None:
    good = storyframes("check", study_copy)
    assert (good.returncode, good.stderr) == (0, "")
    assert "valid" in good.stdout
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "video"] = "../[red]x[/red].avi"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    bad = storyframes("check", study_copy)
    assert bad.returncode == 2
    assert "[red]x[/red].avi" in bad.stderr  # shown as it is, not as markup
    assert "never leaves it" in bad.stderr
    assert bad.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["extract", "demo/study", "{out}", "--session", "p01-s9"], "there is no session 'p01-s9'"),
        (["extract", "demo/study", "{out}", "--only", "resnet"], "there is no feature 'resnet'"),
        (["extract", "demo/study", "{out}", "--config", "absent.toml"], "absent.toml: cannot be read"),
        (["extract", "demo/nothing", "{out}"], "is not a folder"),
        (["extract", "demo/study", "demo"], "not a feature store and not empty"),
        (["extract"], "Missing argument"),
        (["status", "demo"], "is not a feature store"),
        (["verify", "demo"], "is not a feature store"),
        (["gc", "demo"], "is not a feature store"),
        (["index", "demo/study"], "give either FEATURES or --out"),
        (["models", "fetch", "resnet"], "there is no model 'resnet'"),
        (["synthesize", "demo"], "exists and is not empty"),
        (["nothing"], "No such command"),
    ],
)
def test_bad_usage_ends_with_2_and_a_message(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = storyframes(*(argument.replace("{out}", str(tmp_path / "out")) for argument in arguments))
    assert result.returncode == 2, result.stderr
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_the_clip_index_from_the_tables_alone(study_copy: Path, tmp_path: Path) -> None:
    for video in (study_copy / "videos").iterdir():
        video.unlink()  # no video is read
    result = storyframes("index", study_copy, "--out", tmp_path / "clips.parquet")
    assert result.returncode == 0
    assert "54 clips of 120 frames, stride 15" in result.stdout
    assert len(pd.read_parquet(tmp_path / "clips.parquet")) == 54


def test_synthesize_makes_a_valid_study(tmp_path: Path) -> None:
    assert storyframes("synthesize", tmp_path / "s", "--sessions", 2, "--seconds", 2, "--seed", 1).returncode == 0
    assert storyframes("check", tmp_path / "s").returncode == 0


def test_models_list_fits_a_hundred_columns() -> None:
    shown = storyframes("models", "list")
    assert shown.returncode == 0
    assert "resnet50-v1" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


# --- the main job ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(extracted_demo) -> tuple[Path, subprocess.CompletedProcess[str]]:
    return extracted_demo


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_demo(demo) -> None:
    folder, result = demo
    assert result.returncode == 0, result.stderr
    assert "vision (120, 2762) float32" in result.stdout
    assert "untrained weights" in result.stdout
    assert "demo word vectors" in result.stdout
    assert "20 extracted, 0 up to date, 0 without input, 0 failed; the clip index has 54 clips" in result.stdout
    assert "Traceback" not in result.stderr
    assert max(map(len, result.stdout.splitlines()[:-8])) <= 100
    for path in (folder / "features").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def extract_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = folder / "storyframes.toml"
    return storyframes("extract", folder / "study", folder / "features", "--config", config, *arguments)


@pytest.mark.slow
def test_a_second_extraction_submits_nothing(demo) -> None:
    folder, _ = demo
    result = extract_demo(folder)
    assert result.returncode == 0
    assert "0 features are due, 20 need nothing done" in result.stderr
    assert "0 extracted, 20 up to date" in result.stdout


@pytest.mark.slow
def test_one_feature_of_one_session_by_force(demo) -> None:
    folder, _ = demo
    result = extract_demo(folder, "--session", "p01-s02", "--only", "opensmile", "--force")
    assert result.returncode == 0
    assert "1 features are due, 1 need nothing done" in result.stderr
    assert "done p01-s02/opensmile: 2396 rows" in result.stderr


@pytest.mark.slow
def test_status_for_people_and_for_scripts(demo) -> None:
    folder, _ = demo
    shown = storyframes("status", folder / "features")
    assert shown.returncode == 0
    assert "20 done" in shown.stdout
    assert "resnet50: untrained weights (p01-s01, p01-s02, p02-s01)" in shown.stdout
    as_json = storyframes("status", folder / "features", "--json")
    assert as_json.stderr == ""
    entries = json.loads(as_json.stdout)
    assert len(entries) == 20
    assert {entry["status"] for entry in entries} == {"done"}


@pytest.mark.slow
def test_verify_before_and_after_a_flipped_byte(demo) -> None:
    folder, _ = demo
    sound = storyframes("verify", folder / "features")
    assert (sound.returncode, "20 features" in sound.stdout) == (0, True)
    (shard,) = (folder / "features/p02-s01/resnet50").glob("*/values/c/0/0")
    content = bytearray(shard.read_bytes())
    content[100_000] ^= 1
    shard.write_bytes(content)
    damaged = storyframes("verify", folder / "features")
    assert damaged.returncode == 1
    assert "p02-s01" in damaged.stdout
    assert "checksum" in damaged.stdout
    content[100_000] ^= 1
    shard.write_bytes(content)


@pytest.mark.slow
def test_a_failing_session_ends_with_1_and_says_why(study_copy: Path, tmp_path: Path) -> None:
    (study_copy / "openface/p01-s01.csv.gz").write_bytes(b"nonsense")
    result = storyframes("extract", study_copy, tmp_path / "features", "--only", "openface")
    assert result.returncode == 1
    assert "p01-s01.csv.gz: cannot be read to its end" in " ".join(result.stdout.split())
    assert "5 extracted, 0 up to date, 0 without input, 1 failed" in result.stdout
    assert storyframes("verify", tmp_path / "features").returncode == 0


@pytest.mark.slow
def test_a_terminated_run_leaves_no_process_and_the_next_one_goes_on(study_copy: Path, tmp_path: Path) -> None:
    tool = tmp_path / "FeatureExtraction"
    tool.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 1000\n")
    tool.chmod(0o755)
    config = tmp_path / "c.toml"
    config.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\n')
    command = [sys.executable, "-m", "flows.cli", "extract", str(study_copy), str(tmp_path / "features")]
    run = subprocess.Popen(
        [*command, "--only", "openface", "--config", str(config)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 100
    while not (tmp_path / "pids").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode == 143
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "the tool outlived the run"
        time.sleep(0.1)
    again = storyframes("extract", study_copy, tmp_path / "features", "--only", "openface")
    assert again.returncode == 0
    assert "3 extracted, 3 up to date" in again.stdout
