"""A study whose files have two pictures and two sounds: what is extracted and looked at is of the chosen ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pandas as pd
import pytest
from support.media.recordings import write_two_cameras, write_video
from support.studies import extract_session, make_study

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import OPENFACE_COLUMNS
from storyframes.store.feature_store import FeatureStore
from storyframes.times import SESSION_CLOCK
from storyframes_report.devices import stored_streams
from storyframes_report.overlay import draw_overlay
from storyframes_report.report.previews import write_preview
from storyframes_report.report.session_page import ReportOptions
from storyframes_report.report.site import build_report
from tasks.clip_index.index import build_clip_index
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.extractors.source import InputFile, Microphone, Microphones, Source
from tasks.media.container import StreamChoice
from tasks.media.recording import read_frames
from tasks.study.load import load_study

SECOND: dict[str, Any] = {"video_stream": 1, "sound_stream": 1}


@pytest.fixture(scope="module")
def voices() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {"eng": draw.integers(-9000, 9000, (32_000, 1)), "fra": draw.integers(-900, 900, (32_000, 1))}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, voices: dict[str, np.ndarray]) -> Path:
    """A session with ``both.mkv`` and OpenFace's output of its second picture; ``second.mkv`` has that alone."""
    root = make_study(tmp_path_factory.mktemp("two") / "study", video="both.mkv", openface="faces.csv")
    write_two_cameras(root, voices)
    table = pd.DataFrame(0.0, index=range(9), columns=list(OPENFACE_COLUMNS))
    table["frame"], table["timestamp"] = np.arange(9) + 1, np.arange(9) / 5
    table["confidence"], table["success"] = 0.9, 1
    table["x_0"], table["y_0"] = 40.0, 16.0
    table.to_csv(root / "faces.csv", index=False)
    return root


@pytest.fixture(scope="module")
def store(study: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """What is extracted of the second picture and the second sound."""
    root = tmp_path_factory.mktemp("second") / "store"
    store, outcomes = extract_session(study, root, "openface", "opensmile", recording=SECOND)
    assert [outcome.status for outcome in outcomes.values()] == ["done"] * 3
    return store


@pytest.mark.slow
def test_features_are_of_the_chosen_streams_as_if_they_were_the_only_ones(
    study: Path, store: FeatureStore, voices: dict[str, np.ndarray], tmp_path: Path
) -> None:
    alone = make_study(tmp_path / "alone", video="second.mkv")
    write_two_cameras(alone, {"fra": voices["fra"]})
    expected, _ = extract_session(alone, tmp_path / "alone_store", "frames", "opensmile")
    for feature, array in (("frames", "time"), ("opensmile", "values"), ("opensmile", "time")):
        np.testing.assert_array_equal(store.read("s", feature, array=array), expected.read("s", feature, array=array))
    first, outcomes = extract_session(study, tmp_path / "first_store", "frames")
    assert len(first.read("s", "frames", array="time")) == 20
    _, outcomes = extract_session(study, tmp_path / "first_store", "frames", recording=SECOND)
    assert (outcomes["frames"].skipped, outcomes["frames"].rows) == (False, 9)


def test_the_store_says_which_streams_its_features_are_of(store: FeatureStore) -> None:
    assert stored_streams(store, "s") == StreamChoice(1, 1)
    assert stored_streams(store, "s", "side", StreamChoice(2, 3)) == StreamChoice(2, 3)  # nothing is stored of it


def test_points_are_drawn_on_the_picture_that_they_were_found_in(study: Path, store: FeatureStore) -> None:
    drawn = draw_overlay(study / "both.mkv", store, "s", 4)
    shown = next(read_frames(study / "second.mkv", 9)).rgb[4]
    assert (drawn != shown).any(axis=2).mean() < 0.1
    assert (drawn[16, 40] != shown[16, 40]).any()


def test_a_copy_for_browsers_is_made_of_the_chosen_picture(study: Path, tmp_path: Path) -> None:
    sizes = []
    for streams in (StreamChoice(), StreamChoice(1, 1)):
        write_preview(study / "both.mkv", None, tmp_path / "s.mp4", streams)
        with av.open(str(tmp_path / "s.mp4")) as copy:
            sizes.append((copy.streams.video[0].width, copy.streams.video[0].height))
    assert sizes == [(64, 48), (80, 32)]


def test_clips_before_extraction_are_cut_by_the_header_of_the_chosen_picture(study: Path, tmp_path: Path) -> None:
    alone = make_study(tmp_path / "alone", video="second.mkv")
    (alone / "second.mkv").hardlink_to(study / "second.mkv")
    spec = WindowSpec(window=4, stride=4)
    first, second, expected = (
        len(build_clip_index(load_study(root), spec, None, streams=streams).clips)
        for root, streams in ((study, StreamChoice()), (study, StreamChoice(1)), (alone, StreamChoice()))
    )
    assert second == expected < first


@pytest.mark.slow
@pytest.mark.parametrize("recording", [{}, SECOND])
def test_a_report_plays_no_file_of_which_a_browser_takes_other_streams(
    study: Path, store: FeatureStore, tmp_path: Path, recording: dict[str, Any]
) -> None:
    options = ReportOptions(link_recordings=True)
    settings = ExtractorsSettings(recording=recording)
    build_report(load_study(study), store, settings, tmp_path / "site", options)
    page = (tmp_path / "site/sessions/s.html").read_text()
    assert "both.mkv" in page
    assert "video_stream = 1" in page
    options = ReportOptions(proxies=tmp_path / "copies", points=True)
    (tmp_path / "copies").mkdir()
    build_report(load_study(study), store, settings, tmp_path / "other", options)
    assert "video_stream = 1" not in (tmp_path / "other/sessions/s.html").read_text()
    assert '"sizes": {"main": [80, 32]}' in (tmp_path / "other/sessions/s.points.js").read_text()


# --- fingerprints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", ["frames", "openface", "opensmile", "glove", "speaking"])
def test_stores_of_before_there_was_a_choice_of_pictures_stay_current(feature: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("word 0 1\n")
    files = {kind: InputFile(Path(kind), kind, "0" * 64, 1, 1) for kind in ("video", "transcript", "openface")}

    def settings(**recording: int) -> Any:
        glove = {"vectors": tmp_path / "vectors.txt"}
        made = build_extractors(ExtractorsSettings(recording=recording, glove=glove), "s")[feature]
        return made.fingerprint(Source("s", files)).settings

    assert "video_stream" not in settings()
    assert settings(video_stream=1) == settings() | {"video_stream": 1}


def test_only_microphones_in_videos_depend_on_the_picture() -> None:
    """The times of their sound count from the first frame of the chosen picture."""
    files = {kind: InputFile(Path(kind), kind, "0" * 64, 1, 1) for kind in ("audio", "audio@b")}
    speaking = build_extractors(ExtractorsSettings(recording={"video_stream": 1}), "s")["speaking"]
    for is_sound_file in (True, False):
        other = Microphone("audio@b", is_sound_file, SESSION_CLOCK)
        microphones = Microphones(Microphone("audio", True, SESSION_CLOCK), (other,))
        source = Source("s", files, frameless=True, microphones=microphones)
        assert ("video_stream" in speaking.fingerprint(source).settings) is not is_sound_file


@pytest.mark.slow
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_report_links_recordings_of_the_study_only(tmp_path: Path, is_elsewhere: bool) -> None:
    study = make_study(tmp_path / "study", video="own.avi")
    folder = tmp_path / "another-disk" if is_elsewhere else study
    folder.mkdir(exist_ok=True)
    write_video(folder / "own.avi", "mpeg4", [40 * frame for frame in range(25)])
    (study / "storyframes.toml").write_text('[recording]\nroot = "../another-disk"\n' if is_elsewhere else "")
    store, _ = extract_session(study, tmp_path / "store", "frames")
    options = ReportOptions(link_recordings=True, check_sound=True)
    build_report(load_study(study), store, ExtractorsSettings(), tmp_path / "site", options)
    pages = "".join(path.read_text(errors="replace") for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert ("own.avi" in (tmp_path / "site/sessions/s.html").read_text()) is not is_elsewhere
    assert "another-disk" not in pages
