"""The contract of extractors as a test: every rule is held, and the project's own extractors keep them all."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.media.recordings import write_recording
from support.media.video_variants import ffmpeg
from support.messages import missing, naming
from support.tools import bad_extractors as bad

from storyframes.testing import ChangedValuesWarning, check_extractor, contract, rules, violations
from tasks.extractors.base import Tolerance
from tasks.extractors.registry import registered
from tasks.media.recording import read_frame_times, read_frames
from tasks.media.sound import read_audio, sound_s
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.trial import lengthen

FRAMES = 20
IN_THIS_PROCESS = tuple(rule for rule in rules.RULES if rule not in (rules._apart, rules._memory))
# All pictures of these recordings together take less memory than that rule allows; of text, nothing is made longer.
SHORT = tuple(rule for rule in rules.RULES if rule is not rules._memory)


def recording(path: Path, frames: int) -> Path:
    sound = (3000 * np.sin(np.arange(frames * 640) / 9)).astype(np.int16)[:, None]
    return write_recording(path, frames, sound)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("recording") / "video.avi", FRAMES)


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("transcript") / "t.json"
    path.write_text(json.dumps(["one", "three words more"]))
    return path


def files(video: Path, transcript: Path, cls: type) -> dict[str, Path]:
    """What the class reads, and a transcript for the one that reads it unasked."""
    if issubclass(cls, bad.Lines):
        return {"transcript": transcript}
    return {"video": video} | ({"transcript": transcript} if cls is bad.Undeclared else {})


@pytest.mark.slow
@pytest.mark.parametrize("cls", [bad.Good, bad.Lines])
def test_good_ones_keep_every_rule(video: Path, transcript: Path, cls: type) -> None:
    check_extractor(cls, files(video, transcript, cls), decides_nothing=["batch"])


@pytest.mark.parametrize(
    ("cls", "sentence"),
    [
        (int, "is not a class derived from tasks.extractors.base.Extractor"),
        (bad.NoFeatureSpec, "needs spec, a FeatureSpec"),
        (bad.ReservedName, "no feature can be called 'recording'"),
        (bad.UnknownInput, "inputs has 'vidoe'"),
        (bad.NeedsASetting, "scale has no default value"),
        (bad.Forgetful, r"its settings .* come back as"),
        (bad.Tolerant, "take a key that does not exist"),
        (bad.Unwilling, "the recording gives no version: frame 0: I would rather not"),
        (bad.OneRowTooMany, f"'values' has {FRAMES + 1} rows, but one for each frame is {FRAMES}"),
        (bad.Fractions, r"gives no version: ValueError: values: 0\.5 does not fit uint8"),
        (bad.OtherShape, r"gives no version: .*shape \(8, 2\), which must be \(8,\)"),
        (
            bad.OtherArray,
            "gives no version: .*rows.. gave the array 'brightness', which its spec does not have; it has",
        ),
        (bad.AlwaysNew, "another one each time"),
        (bad.SettingForgotten, r"stays the same with scale = 2\.0, 3\.0, 4\.0: name the setting in value_settings"),
        (bad.Opaque, "no other value of the setting 'table' can be thought up: give one in others"),
        (bad.Blind, "stays the same where the video is another"),
        (bad.Undeclared, "reads the transcript, but inputs does not name it"),
        (bad.MissingIsFailure, r"without transcript it fails \(ExtractionError: there is no transcript\)"),
        (bad.MissingIsZero, "it gives values for a session without transcript"),
        (bad.AnyBytes, "where the transcript is (cut off in the middle|garbage|zero bytes|empty) it gives values"),
        (
            bad.RawError,
            r"where the transcript is .* it raises (JSONDecodeError|UnicodeDecodeError) \(.*\), which has to",
        ),
        (bad.EmptyIsMissing, "where the transcript is empty it says that the input is missing"),
    ],
)
def test_each_rule_is_held_and_no_other_is_named(
    video: Path, transcript: Path, cls: type, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "RULES", IN_THIS_PROCESS)
    settings = {"scale": 2} if cls is bad.Forgetful else None
    found = violations(cls, files(video, transcript, cls), settings=settings, decides_nothing=["batch"])
    assert found
    for each in found:
        assert re.search(sentence, each), each


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "sentence"),
    [
        (bad.Random, "a second extraction, in another process, gives other values of 'values': they differ by up to"),
        (bad.ByHash, "a second extraction, in another process, gives other values"),
        (bad.ElsewhereNothing, "in a process of its own it gives no version: not in this process"),
    ],
)
def test_what_shows_in_a_process_of_its_own(video: Path, cls: type, sentence: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(contract, "RULES", (rules._apart,))
    (found,) = violations(cls, video)
    assert re.search(sentence, found)


@pytest.mark.slow
def test_a_second_of_video_shows_whether_frames_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders' buffers and caches, which short recordings do not fill, are not taken for kept frames."""
    write_study(tmp_path / "study", SyntheticStudy(sessions=1, seconds=1))
    monkeypatch.setattr(contract, "RULES", (rules._memory,))
    second = tmp_path / "study" / "videos" / "s0001.avi"
    assert violations(bad.Good, second) == []
    (found,) = violations(bad.Hoarder, second)
    assert missing(found, "memory grows", "32 MB") == []


def test_a_class_that_nobody_can_import_is_none(video: Path) -> None:
    class Local(bad.Good):
        pass

    assert violations(Local, video) == [
        f"it cannot be imported as {__name__}:{Local.__qualname__}: a worker, and a plug-in's entry point, name it so"
    ]


def test_all_are_told_at_once(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "RULES", IN_THIS_PROCESS)
    monkeypatch.setattr(bad.Good, "Settings", bad.TolerantSettings)
    with pytest.raises(contract.ContractError) as error:
        check_extractor(bad.SettingForgotten, video)
    first, *lines = str(error.value).splitlines()
    assert missing(first, "3 rules", "SettingForgotten") == []
    assert ["does not exist" in lines[0], "scale" in lines[1], "batch" in lines[2]] == [True] * 3


def test_other_values_under_the_same_version_are_warned_about(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "RULES", (rules._values,))
    kept, rows = tmp_path / "good.npz", bad.Good.rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_extractor(bad.Good, video, earlier=kept)  # writes the file
        check_extractor(bad.Good, video, earlier=kept)
    monkeypatch.setattr(bad.Good, "rows", lambda self, batch: rows(self, batch) + np.float32(0.5))
    for _ in range(2):  # until the version is raised
        with pytest.warns(ChangedValuesWarning, match=r"version is still 1, .*'values' .* 0\.5 .*good\.npz"):
            check_extractor(bad.Good, video, earlier=kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with monkeypatch.context() as within:
            within.setattr(bad.Good, "tolerance", {"values": Tolerance(1.0)})
            check_extractor(bad.Good, video, earlier=kept)
        monkeypatch.setattr(bad.Good, "version", 2)
        check_extractor(bad.Good, video, earlier=kept)
        check_extractor(bad.Good, video, earlier=kept)
    kept.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"good\.npz"):
        check_extractor(bad.Good, video, earlier=kept)


def test_what_cannot_be_lengthened_is_asked_for(video: Path) -> None:
    with pytest.raises(ValueError, match=naming("longer=", "recording")):
        violations(bad.Good, {"video": video, "openface": video})


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("b_frames_aac.mp4", "-c:v libx264 -bf 2 -c:a aac"),
        ("hevc_aac.mov", "-c:v libx265 -x265-params log-level=none -tag:v hvc1 -c:a aac"),
        ("vp9_opus.webm", "-c:v libvpx-vp9 -c:a libopus"),
        ("b_frames.avi", "-c:v mpeg4 -bf 2 -c:a libmp3lame"),
        ("vorbis.mkv", "-c:v libx264 -c:a libvorbis"),
        ("sound.m4a", "-vn -c:a aac"),
        ("sound.wav", "-vn"),
    ],
)
def test_any_recording_is_made_longer(tmp_path: Path, name: str, options: str) -> None:
    path = tmp_path / name
    inputs = "-f lavfi -i testsrc2=size=64x48:rate=25:duration=1 -f lavfi -i sine=440:duration=1"
    ffmpeg(*inputs.split(), *options.split(), "-pix_fmt", "yuv420p", path)
    longer = lengthen(path, tmp_path, 3)
    if "-vn" not in options:
        assert len(read_frame_times(longer).time) == 75
        pictures, again = (np.concatenate([batch.rgb for batch in read_frames(file, 25)]) for file in (path, longer))
        assert np.array_equal(again, np.concatenate([pictures] * 3))
    assert sound_s(longer) == pytest.approx(3, abs=0.3)
    sound = np.concatenate([block.samples for block in read_audio(longer, 8000)])
    peaks = [np.abs(np.fft.rfft(second)).argmax() for second in sound[: 3 * 8000].reshape(3, 8000)]
    assert peaks == [440] * 3


# --- the project's own -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_frames(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "RULES", SHORT)
    check_extractor(registered()["frames"], video)


@pytest.mark.slow
def test_opensmile(video: Path) -> None:
    check_extractor(registered()["opensmile"], video)


@pytest.mark.slow
@pytest.mark.nightly
def test_resnet50(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "RULES", SHORT)
    video = recording(tmp_path / "video.avi", 4)  # a tenth of a second of a processor for each frame of each rule
    runs_elsewhere = ["device", "sessions_per_gpu", "batch_size", "cpus", "allow_untrained"]
    # By torch, as OpenVINO converts anew in each process; in small batches, as the shorter recording fills no others.
    untrained = {"allow_untrained": True, "engine": "torch", "batch_size": 2}
    check_extractor(registered()["resnet50"], video, settings=untrained, decides_nothing=runs_elsewhere)


@pytest.fixture(scope="module")
def spoken(video: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A recording in which something is said."""
    utterance = {"speaker": "participant", "start_s": 0.1, "end_s": 0.7, "text": "the garden was my friend"}
    path = tmp_path_factory.mktemp("spoken") / "t.json"
    path.write_text(json.dumps({"utterances": [utterance]}))
    return {"video": Path(shutil.copy(video, path.parent)), "transcript": path}


@pytest.mark.slow
def test_glove(spoken: dict[str, Path], demo_study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "RULES", SHORT)
    vectors = demo_study.parent / "glove.demo.300d.txt"
    settings = {"vectors": str(vectors), "demo_vectors": True}
    check_extractor(registered()["glove"], spoken, settings=settings)


@pytest.mark.slow
@pytest.mark.nightly
def test_sbert(spoken: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "RULES", SHORT)
    check_extractor(registered()["sbert"], spoken, decides_nothing=["model"])
