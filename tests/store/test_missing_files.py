"""A file that the tables name and that is not there is the problem of its session, and of the features that need it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from support.commands import storyframes_here
from support.messages import missing
from support.studies import run

from storyframes.store import record_status
from storyframes.store.layout import open_storage
from storyframes.store.records import Status
from tasks.extract import Outcome
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import expected_versions
from tasks.planning.selection import Selection
from tasks.study.load import load_study

DEMO = Path(__file__).parents[2] / "demo"
FEATURES = ("openface", "opensmile", "glove")
GLOVE = {"glove": {"vectors": DEMO / "glove.demo.300d.txt", "demo_vectors": True}}


def outcomes(study: Path, root: Path, *sessions: str, **settings) -> dict[str, Outcome]:
    return run(study, root, Selection(sessions or None, FEATURES), **{**GLOVE, **settings})


def failed(found: dict[str, Outcome]) -> dict[str, str]:
    return {name: outcome.reason for name, outcome in found.items() if outcome.status is Status.FAILED}


@pytest.mark.parametrize(
    ("file", "asked", "features"),
    [
        pytest.param("videos/p01-s01.avi", FEATURES, ("frames", *FEATURES), marks=pytest.mark.slow),
        pytest.param("transcripts/p01-s01.json", ("openface", "glove"), ("glove",), marks=pytest.mark.slow),
        ("openface/p01-s01.csv.gz", ("openface",), ("openface",)),
    ],
)
def test_what_needs_it_fails_and_everything_else_is_done(
    study_copy: Path, store_root: Path, file: str, asked: tuple[str, ...], features: tuple[str, ...]
) -> None:
    sessions = ("p01-s01", "p02-s01")
    (study_copy / file).unlink()
    found = run(study_copy, store_root, Selection(sessions, asked), **GLOVE)
    assert failed(found) == {f"p01-s01/{name}": f"{file}: the file does not exist" for name in features}
    assert found.keys() == {f"{session}/{name}" for session in sessions for name in ("frames", *asked)}
    noted = {(entry.session_id, entry.feature): entry for entry in record_status.scan(open_storage(store_root))}
    for name in features:
        assert noted["p01-s01", name].status is Status.FAILED
        assert not missing(noted["p01-s01", name].reason, file, "the file does not exist")
    shutil.copy(DEMO / "study" / file, study_copy / file)
    assert failed(run(study_copy, store_root, Selection(sessions[:1], asked), **GLOVE)) == {}


def test_the_sound_of_the_video_never_stands_in_for_a_sound_file_that_is_missing(
    study_copy: Path, store_root: Path
) -> None:
    sessions = pd.read_csv(study_copy / "sessions.csv", dtype=str)
    sessions["audio"] = None
    sessions.loc[0, "audio"] = "audio/p01-s01.wav"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    found = run(study_copy, store_root, Selection(("p01-s01",), ("opensmile",)))
    assert failed(found) == {"p01-s01/opensmile": "audio/p01-s01.wav: the file does not exist"}


def test_files_of_other_sessions_do_not_matter(study_copy: Path, store_root: Path) -> None:
    for video in ("p01-s02.avi", "p02-s01.avi"):
        (study_copy / "videos" / video).unlink()
    found = run(study_copy, store_root, Selection(("p01-s01",), ("openface",)))
    assert found.keys() == {"p01-s01/frames", "p01-s01/openface"}
    assert failed(found) == {}


@pytest.mark.parametrize("made", ["link out", "link to nothing", "link loop", "folder", "pipe"])
def test_what_is_no_file_of_the_study_is_never_opened(
    study_copy: Path, store_root: Path, tmp_path: Path, made: str
) -> None:
    import os

    video = study_copy / "videos/p01-s01.avi"
    video.rename(tmp_path / "outside.avi")
    match made:
        case "link out":
            video.symlink_to(tmp_path / "outside.avi")
        case "link to nothing":
            video.symlink_to("nothing")
        case "link loop":
            video.symlink_to(video.name)
        case "folder":
            video.mkdir()
        case "pipe":
            os.mkfifo(video)  # reading it would wait for ever
    found = outcomes(study_copy, store_root, "p01-s01")
    assert set(failed(found)) == {f"p01-s01/{name}" for name in ("frames", *FEATURES)}
    assert len({outcome.reason for outcome in found.values() if outcome.status is Status.FAILED}) == 1


@pytest.mark.slow
def test_openface_csvs_are_not_looked_for_where_openface_runs(study_copy: Path, store_root: Path) -> None:
    tool = study_copy.parent / "FeatureExtraction"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    openface = {"backend": "binary", "binary": tool, "loads": (tool,)}
    shutil.rmtree(study_copy / "openface")
    wanted = expected_versions(
        load_study(study_copy), open_storage(store_root), ExtractorsSettings(openface=openface, **GLOVE)
    )
    assert {one.reason for one in wanted if one.feature == "openface"} == {""}
    reasons = failed(run(study_copy, store_root, Selection(only=("openface",)), openface=openface))
    assert set(reasons) == {f"{session}/openface" for session in ("p01-s01", "p01-s02", "p02-s01")}
    assert not any("does not exist" in reason for reason in reasons.values())


@pytest.mark.slow
def test_every_command_goes_on_without_it_and_check_sets_aside(
    study_copy: Path, store_root: Path, tmp_path: Path
) -> None:
    video = "videos/p01-s01.avi"
    (study_copy / video).unlink()
    run(study_copy, store_root, Selection(("p01-s01", "p02-s01"), ("openface",)))
    checked = storyframes_here("check", study_copy)
    assert checked.returncode == 1
    assert f"'{video}'" in checked.stderr
    assert "1 problem" in checked.stderr
    assert storyframes_here("index", study_copy, store_root).returncode == 0


def test_a_run_says_what_cannot_be_made_before_it_begins(study_copy: Path, store_root: Path) -> None:
    """It is not up to date, so "needs nothing done" would be false."""
    (study_copy / "videos/p01-s01.avi").unlink()
    asked = ("--features", "frames", "--session", "p01-s01", "--session", "p01-s02")
    first = storyframes_here("extract", study_copy, store_root, *asked)
    assert first.returncode == 1, first.stderr
    assert not missing(first.stderr, "1 feature is due", "0 need nothing done", "1 cannot be made")
    again = storyframes_here("extract", study_copy, store_root, *asked)
    assert not missing(again.stderr, "0 features are due", "1 needs nothing done", "1 cannot be made")


@pytest.mark.slow
def test_the_plan_is_made_of_the_other_sessions(study_copy: Path, tmp_path: Path) -> None:
    (study_copy / "videos/p01-s01.avi").unlink()
    (study_copy / "transcripts/p01-s02.json").unlink()
    config = tmp_path / "storyframes.toml"
    config.write_text('features = ["opensmile", "glove"]\n')
    planned = storyframes_here("plan", study_copy, "--seconds", 2, "--config", config)
    assert planned.returncode == 0, planned.stderr
    assert not missing(planned.stderr, "p01-s01", "videos/p01-s01.avi")
    assert not missing(planned.stderr, "p01-s02", "transcripts/p01-s02.json")
    assert "2 sessions," in planned.stdout
