"""What pages show of sessions without clips, of surveys and words, and of sessions without a camera."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.media.mixed_sessions import ROWS, extract_mixed, make, write_files
from support.pages.page_data import page_data
from support.stores import local, publish_arrays
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from storyframes_report import ReportOptions, build_report
from storyframes_report.report.facts import read_facts, scores_of
from tasks.extractors.registry import ExtractorsSettings
from tasks.study.load import load_study

LATER = "is later than any recording ends: phases are in seconds from the recording's beginning"


def done(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "250"})
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def test_a_session_with_absurd_phases_is_named_and_drawn_without_them(
    study_copy: Path, store_root: Path, tmp_path: Path
) -> None:
    publish_arrays(store_root, "p01-s01", "frames", {"time": np.arange(465) / 15})
    phases = pd.read_csv(study_copy / "phases.csv", dtype=str)
    phases.loc[4, "end_s"] = "1700000000000"
    phases.to_csv(study_copy / "phases.csv", index=False)
    built = build_report(
        load_study(study_copy), FeatureStore(store_root), ExtractorsSettings(), tmp_path / "site", ReportOptions()
    )
    assert LATER in built.problems["p01-s01"]
    page = (tmp_path / "site/sessions/p01-s01.html").read_text()
    assert "phases, row 6" in page
    assert "cool_down" not in page


def test_surveys_may_be_taken_at_other_times(study_copy: Path) -> None:
    surveys = "participant_id,timepoint,scale,score\np01,pre,x,1\np01,week_6,x,2\np01,mid,x,3\n"
    (study_copy / "surveys.csv").write_text(surveys)
    scores = scores_of(load_study(study_copy))
    assert {point: list(of) for point, of in scores["x"].items()} == {"pre": [1.0], "mid": [3.0], "week_6": [2.0]}
    assert list(scores["x"]) == ["pre", "mid", "week_6"]


def test_the_words_of_a_session_are_those_of_its_own_transcript(demo_study: Path, store_root: Path) -> None:
    with FeatureWriter(local(store_root), "p01-s01", FEATURES["frames"]) as out:
        out.write("time", np.arange(30) / 15)
        out.quality |= {"fps": 15.0, "duration_s": 29 / 15}
        out.publish("f" * 64, {"inputs": {}})
    for track, count in (("main", 4), ("child_b", 1)):
        with FeatureWriter(local(store_root), "p01-s01", FEATURES["glove"], track=track) as out:
            for name, spec in out.spec.arrays.items():
                out.write(name, np.zeros((30 if name == "frame_word" else count, *spec.shape), spec.dtype))
            out.attributes["speakers"] = ["participant"]
            out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(store_root))
    facts = read_facts(load_study(demo_study), FeatureStore(store_root), ExtractorsSettings())
    assert facts.words == {"p01-s01": 4}
    assert facts.lengths_s["p01-s01"] == pytest.approx(2.0, abs=0.1)
    assert "glove@child_b" in facts.matrix.features


@pytest.mark.slow
@pytest.mark.needs("rerun")
def test_sessions_without_a_camera_are_shown(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    files = write_files(tmp_path / "files")
    study, store, config = make(tmp_path, files, *ROWS), tmp_path / "store", ("--config", tmp_path / "seconds.toml")
    extract_mixed(tmp_path, study, files)
    for session in ROWS:
        done("view", study, store, session, "--out", tmp_path / f"{session}.rrd")
    assert "has no video" in done("overlay", study, store, "chat", "--out", tmp_path / "x.png", code=2)
    done("report", study, store, "--out", tmp_path / "report", "--with-text", "--with-video", *config)
    page = (tmp_path / "report/sessions/podcast.html").read_text()
    assert "loudness" in page
    first, second, *_ = page_data(page, "windows")
    assert [first["start"], second["start"], dict(second["about"])["frames"]] == [0.0, 0.5, "none"]
    assert "missing" not in page
    assert "we sang" in (tmp_path / "report/sessions/chat.html").read_text()
