"""Sessions of sound, of a transcript, or of a silent video: from the tables to clips and report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.media.mixed_sessions import ENDS_S, FEATURES, HAS, ROWS, extract_mixed, make, write_files
from support.messages import missing, naming
from support.studies import run
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Status
from tasks.clip_index.index import build_clip_index
from tasks.extract import extract
from tasks.extractors.base import CommonSettings, Extractor, ExtractorSettings, Input, MissingInputError, Source
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.forecast import forecast, measure_study
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.sources import input_file
from tasks.study.load import load_study


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("files"))


def done(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "250"})
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.mark.parametrize("session", ["podcast", "chat", "silent"])
def test_a_study_of_one_kind(tmp_path: Path, files: Path, session: str) -> None:
    study = make(tmp_path, files, session)
    outcomes = extract_mixed(tmp_path, study, files)
    expected = {feature: Status.DONE if feature in HAS[session] else Status.MISSING for feature in FEATURES}
    assert outcomes == {f"{session}/{feature}": status for feature, status in expected.items()}
    store = FeatureStore(tmp_path / "store")
    clips = store.clips()
    starts = np.arange(0, ENDS_S[session] - 1 + 1e-6, 0.5)
    np.testing.assert_allclose(clips["start_s"], starts, atol=0.02)
    np.testing.assert_allclose(clips["stop_s"] - clips["start_s"], 1.0, atol=1e-6)
    assert clips["clip_id"].is_unique
    if session == "chat":  # words at 0.2, 0.47, 1.2 and 1.9 s
        assert clips["words"].tolist() == [2, 1, 2, 1, 0]
    inputs = {"podcast": ["audio", "words"], "chat": ["words"], "silent": [ClipInput("frames")]}[session]
    dataset = ClipDataset(store, inputs)
    assert len(dataset) == len(clips)
    assert len(dataset.read(range(len(dataset)))["index"]) == len(clips)


def test_frames_of_a_video_that_the_study_names_no_more_are_named(tmp_path: Path, files: Path) -> None:
    """Its row loses the video: what was extracted of it stays, and whoever makes clips of that is told."""
    study = make(tmp_path, files, "silent", "camera")
    assert extract_mixed(tmp_path, study, files)["silent/frames"] is Status.DONE
    store, spec = FeatureStore(tmp_path / "store"), WindowSpec(window_s=1.0, stride_s=0.5)
    assert build_clip_index(load_study(study), spec, store).warnings == {}
    table = pd.read_csv(study / "sessions.csv", dtype=str).assign(video=["", "camera.mkv"])
    table.loc[0, "audio"] = "podcast.wav"
    table.to_csv(study / "sessions.csv", index=False)
    for again in range(2):  # before and after an extraction that finds no video
        index = build_clip_index(load_study(study), spec, FeatureStore(tmp_path / "store"))
        assert list(index.warnings) == ["silent"]
        assert missing(index.warnings["silent"], "no video", "frames") == []
        if not again:
            run(study, tmp_path / "store", Selection(only=("frames",)))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    study = make(folder, files, *ROWS)
    extract_mixed(folder, study, files)
    return folder


def test_one_index_has_sessions_with_a_camera_and_without(mixed: Path) -> None:
    clips = FeatureStore(mixed / "store").clips()
    assert set(clips["session_id"]) == set(ROWS)
    without = clips[clips["session_id"].isin(["podcast", "chat"])]
    assert (without["stop_frame"] - without["start_frame"] == 15).all()  # steps of 1 / [clips] fps seconds
    assert without["start_frame"].tolist() == np.floor(without["start_s"] * 15).tolist()
    assert without["frames_expected"].isna().all()
    assert clips.loc[clips["session_id"] == "camera", "frames_expected"].eq(25).all()
    podcast = clips[clips["session_id"] == "podcast"]
    time = FeatureStore(mixed / "store").read("podcast", "opensmile", array="time")
    assert podcast["audio_start"].tolist() == np.searchsorted(time, podcast["start_s"] - 1e-6).tolist()
    assert podcast["sound_covered"].min() > 0.95


def test_one_dataset_masks_what_a_session_lacks(mixed: Path) -> None:
    inputs = [ClipInput(name, missing="mask", **more) for name, more in (("audio", {}), ("glove", {}))]
    dataset = ClipDataset(mixed / "store", inputs)
    batch = dataset.read(range(len(dataset)))
    session = dataset.clips["session_id"]
    assert batch["audio_mask"].any(axis=1).tolist() == session.isin(["camera", "podcast"]).tolist()
    assert batch["glove_length"][session == "podcast"].tolist()[0] == 2
    assert not batch["glove_mask"][session.isin(["camera", "silent"])].any()
    at_rate = ClipDataset(mixed / "store", [ClipInput("opensmile", rate=20.0, missing="mask")])
    assert at_rate[0]["opensmile"].shape[0] == 20


def test_rows_for_frames_are_masked_where_there_are_none(mixed: Path) -> None:
    where = 'session_id in ["camera", "podcast"]'
    dataset = ClipDataset(mixed / "store", [ClipInput("audio", axis="frame", missing="mask")], where)
    alone = ClipDataset(mixed / "store", [ClipInput("audio", axis="frame")], 'session_id == "camera"')
    camera = (dataset.clips["session_id"] == "camera").to_numpy()
    batch = dataset.read(range(len(dataset)))
    np.testing.assert_array_equal(batch["audio"][camera], alone.read(range(len(alone)))["audio"])
    assert batch["audio_mask"].any(axis=1).tolist() == camera.tolist()
    with pytest.raises(ValueError, match=naming("'audio'", "podcast", "rate=")):
        ClipDataset(mixed / "store", [ClipInput("audio", axis="frame")], where)
    none = ClipDataset(mixed / "store", [ClipInput("audio", axis="frame", missing="mask")], 'session_id == "podcast"')
    assert none.fields["audio"] == alone.fields["audio"]  # a split may have no session with a camera
    assert not none.read(range(len(none)))["audio_mask"].any()
    words = ClipDataset(mixed / "store", [ClipInput("words", axis="frame", rate=10.0)], 'session_id == "chat"')
    assert words[0]["words_mask"].tolist() == [False] * 2 + [True] * 8  # "we sang" from 0.2 to 1.0 s


def test_a_continuous_label_of_a_sound_is_read_at_a_rate(tmp_path: Path, files: Path) -> None:
    study = make(tmp_path, files, "podcast")
    (study / "curve.csv").write_text("time_s,value\n" + "".join(f"{n / 10:g},{n}\n" for n in range(25)))
    (study / "curves.csv").write_text("session_id,scheme,path\npodcast,valence,curve.csv\n")
    create_store(tmp_path / "store")
    run(study, tmp_path / "store", Selection(only=("label.valence",)))
    done("index", study, tmp_path / "store", "--config", tmp_path / "seconds.toml")
    valence = ClipDataset(tmp_path / "store", [ClipInput("label.valence", rate=10.0)])
    assert valence[1]["label.valence"].tolist() == list(range(5, 15))  # from 0.5 s on
    with pytest.raises(ValueError, match=naming("'label.valence'", "podcast", "rate=")):
        ClipDataset(tmp_path / "store", ["label.valence"])


def test_windows_in_frames_say_which_two_lines_help(mixed: Path) -> None:
    study = load_study(mixed / "study")
    index = build_clip_index(study, WindowSpec(window=25, stride=10), FeatureStore(mixed / "store"))
    assert set(index.excluded) == {"podcast", "chat"}
    assert missing(index.excluded["chat"], "no video", "[clips] window = 25", "window_s = 1 and stride_s = 0.4") == []
    alone = build_clip_index(study, WindowSpec(), None)
    assert "window_s = 4.8 and stride_s = 0.6" in alone.excluded["podcast"]  # 120 frames at the others' 25


def test_a_study_without_any_video_has_no_clips_in_frames_and_nothing_wrong_with_it(
    tmp_path: Path, files: Path
) -> None:
    study = make(tmp_path, files, "podcast", "chat")
    index = build_clip_index(load_study(study), WindowSpec(window=30, stride=15), None)
    assert (len(index.clips), dict(index.excluded)) == (0, {})
    (remark,) = index.remarks
    assert all(word in remark for word in ("0 clips", "no session has a video", "window = 30", "window_s = 2"))
    (study / "podcast.wav").unlink()
    (study / "podcast.wav").write_bytes(b"no sound")  # now something is
    index = build_clip_index(load_study(study), WindowSpec(window=30, stride=15), None)
    assert set(index.excluded) == {"podcast"}
    assert "no session has a video" in index.remarks[0]


@pytest.mark.slow
def test_commands_of_a_study_without_any_video_end_well(tmp_path: Path, files: Path) -> None:
    study = make(tmp_path, files, "podcast", "chat")
    said = done("extract", study, tmp_path / "store", "--features", "opensmile", "--workers", "1")
    assert "no session has a video" in said
    done("index", study, tmp_path / "store")
    store = FeatureStore(tmp_path / "store")
    assert (len(store.clips()), store.has("podcast", "opensmile")) == (0, True)


def test_without_a_store_windows_end_with_the_files(mixed: Path) -> None:
    index = build_clip_index(load_study(mixed / "study"), WindowSpec(window_s=1.0, stride_s=0.5), None)
    assert not index.excluded
    stored = FeatureStore(mixed / "store").clips()
    columns = ["clip_id", "start_s", "stop_s"]
    for session in ("podcast", "chat"):
        ours, theirs = (clips[clips["session_id"] == session][columns] for clips in (index.clips, stored))
        pd.testing.assert_frame_equal(ours.reset_index(drop=True), theirs.reset_index(drop=True))


def test_a_session_of_unknown_length_is_excluded_by_name(tmp_path: Path, files: Path) -> None:
    study = make(tmp_path, files, "podcast", "chat")
    (study / "podcast.wav").unlink()
    (study / "podcast.wav").write_bytes(b"no sound")  # not through the hard link
    for spec in (WindowSpec(window_s=1.0), WindowSpec()):
        index = build_clip_index(load_study(study), spec, None)
        assert missing(index.excluded["podcast"], "no video", "sound", "transcript") == []
    assert set(build_clip_index(load_study(study), WindowSpec(window_s=1.0), None).clips["session_id"]) == {"chat"}


def test_the_window_that_is_proposed_gives_clips(tmp_path: Path, files: Path) -> None:
    study = load_study(make(tmp_path, files, "podcast"))
    (why,) = build_clip_index(study, WindowSpec(window_s=30.0), None).remarks
    window_s = float(why.rpartition("window_s = ")[2])
    assert 2.4 < window_s <= 2.5
    assert len(build_clip_index(study, WindowSpec(window_s=window_s), None).clips) == 1


def test_a_transcript_alone_is_planned_by_its_own_length_and_words(tmp_path: Path, files: Path) -> None:
    """However little is said in the seconds that are measured."""
    study = make(tmp_path, files, "chat")
    said = [{"start_s": 30.0 * n, "end_s": 30.0 * n + 2, "text": "we sang " * 5} for n in range(40)]
    (study / "chat.json").unlink()
    (study / "chat.json").write_text(json.dumps({"utterances": said}))
    settings = ExtractorsSettings.model_validate({"glove": {"vectors": files / "glove.txt", "demo_vectors": True}})
    glove = Selection(only=("glove",))
    measured = measure_study(load_study(study), settings, 10, lambda *_: None, lambda *_: None, glove)
    result = forecast(measured.rates, measured.recordings, 1)
    assert result.recorded_s == 39 * 30 + 2
    plan = plan_extraction(load_study(study), tmp_path / "store", settings, glove)
    stored = sum(outcome.bytes for unit in plan.units for outcome in extract(unit))
    assert result.bytes == pytest.approx(stored, rel=0.1)


class LengthOfWords(Extractor[ExtractorSettings]):
    """Has a row for each frame, of what is not a picture."""

    spec = FeatureSpec("length", "of words", {"values": ArraySpec(Axis.FRAME, "int64", "letters", fill=0)})
    version = 1
    inputs = (Input.TRANSCRIPT,)

    def extract(self, source: Source, out: FeatureWriter) -> None:
        raise AssertionError("it has no frames")


def test_what_needs_frames_has_no_input_whatever_it_reads(files: Path) -> None:
    source = Source("chat", {"transcript": input_file(files / "chat.json")}, frameless=True)
    with pytest.raises(MissingInputError, match="no video"):
        LengthOfWords(ExtractorSettings(), CommonSettings()).fingerprint(source)
    assert LengthOfWords(ExtractorSettings(), CommonSettings()).fingerprint(replace(source, frameless=False)).digest


def test_phases_are_cut_at_the_end_of_the_sound(tmp_path: Path, files: Path) -> None:
    study = make(tmp_path, files, "podcast", "chat")
    phases = "session_id,phase,start_s,end_s\npodcast,a,0,1.3\npodcast,b,1.3,9\nchat,a,0.3,2.4\nchat,b,2.4,9\n"
    (study / "phases.csv").write_text(phases)
    index = build_clip_index(load_study(study), WindowSpec(window_s=1.0, stride_s=0.5), None)
    clips = index.clips[["session_id", "phase", "start_s"]].round(3).to_numpy().tolist()
    assert clips == [
        ["chat", "a", 0.3],
        ["chat", "a", 0.8],
        ["chat", "a", 1.3],
        ["podcast", "a", 0.0],
        ["podcast", "b", 1.3],
    ]
    assert set(index.warnings) == {"podcast", "chat"}
    assert missing(index.warnings["podcast"], "phase 'b'", "9.00 s", "sound", "2.50 s") == []
    assert missing(index.warnings["chat"], "phase 'b'", "9.00 s", "utterance", "3.30 s") == []


@pytest.mark.slow
def test_commands_work_on_sessions_without_a_camera(mixed: Path, tmp_path: Path) -> None:
    study, store, config = mixed / "study", mixed / "store", ("--config", mixed / "seconds.toml")
    done("check", study, *config)
    assert "excluded" not in done("index", study, store, *config)
    done("status", store)
    done("verify", store)
    done("clips", store)
    for session in ROWS:
        shown = done("show", store, session)
        assert all(feature in shown for feature in HAS[session])
        assert ("loudness" in shown) == (session in ("camera", "podcast"))
    assert "not measured" not in done("plan", study, *config)  # each feature on a session that has its input
