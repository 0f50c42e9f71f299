"""What is wrong with a recording: every rule finds what it is for, at the right time, and nothing in a good one."""

from __future__ import annotations

import dataclasses
import wave
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing
from support.stores import local

from flows.cli.session_tables import session_tables
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from tasks.inspect.quality import Quality, Rule
from tasks.inspect.session_curves import FaceCurves, SessionCurves, Utterances
from tasks.inspect.track_curves import read_curves
from tasks.media.sound import RUN, find_clipped

FRAMES, FPS, SECONDS = 450, 15, 30.0


def good() -> SessionCurves:
    """Half a minute without a fault."""
    generator = np.random.default_rng(0)
    sound = np.arange(0, SECONDS - 0.05, 0.01)
    return SessionCurves(
        "a",
        np.arange(FRAMES) / FPS,
        SECONDS,
        faces=[FaceCurves("openface", np.ones(FRAMES, np.float32), np.tile(np.float32([320, 240, 120]), (FRAMES, 1)))],
        frame_features=2,
        change=np.concatenate([[np.nan], generator.uniform(0.005, 0.02, FRAMES - 1)]),
        sound_time=sound,
        loudness=np.full(len(sound), -25.0),
        f0=np.full(len(sound), 180.0),
        sound_end_s=SECONDS,
        utterances=Utterances(np.array([1.0, 10.0]), np.array([8.0, 20.0]), ["robot", "participant"]),
        doubtful=(),
    )


def between(time: np.ndarray, start: float, stop: float) -> np.ndarray:
    return (time >= start - 1e-9) & (time < stop - 1e-9)


def the_only(curves: SessionCurves):
    (finding,) = Quality.of(curves).findings
    assert finding.rule_text
    return finding


def test_a_good_recording_has_no_finding() -> None:
    assert Quality.of(good()) == Quality([], {})
    assert Quality.of(good()).looked_at == list(Rule)


LACKING = {
    (Rule.FACE_LOST, Rule.FACE_JUMP): {"faces": []},
    (Rule.SILENCE, Rule.CLIPPING): {"loudness": None},
    (Rule.FROZEN, Rule.DUPLICATED): {"change": None},
    (Rule.LENGTHS,): {"sound_end_s": None},
    (Rule.OUTSIDE_SPEECH,): {"utterances": Utterances(np.array([1.0]), np.array([1.4]), ["robot"])},
    (Rule.MISFIT,): {"frame_features": 0},
}


@pytest.mark.parametrize(("rules", "lacking"), LACKING.items())
def test_a_rule_without_anything_to_look_at_says_so(rules: tuple[Rule, ...], lacking: dict[str, object]) -> None:
    quality = Quality.of(dataclasses.replace(good(), **lacking))
    assert (quality.findings, set(quality.not_looked_at)) == ([], set(rules))
    assert quality.looked_at == [rule for rule in Rule if rule not in rules]
    assert quality.unjudged.startswith(rules[0])


def test_only_of_a_region_is_it_judged_whom_it_shows() -> None:
    quality = Quality.of(dataclasses.replace(good(), doubtful=None))
    assert quality.looked_at == [rule for rule in Rule if rule is not Rule.DOUBTFUL_REGION]
    assert quality.not_looked_at == {}
    finding = the_only(dataclasses.replace(good(), doubtful=((1.0, 2.5), (4.0, 5.0))))
    assert (finding.rule, finding.spans) == (Rule.DOUBTFUL_REGION, ((1.0, 2.5), (4.0, 5.0)))
    assert not missing(finding.message, "2.5 s", "the region may show somebody")


def test_of_nothing_nothing_is_said_to_be_right() -> None:
    quality = Quality.of(SessionCurves("a", np.empty(0), 0.0))
    assert (quality.findings, quality.looked_at) == ([], [])
    shown = [
        part for part in session_tables([], {"main": SessionCurves("a", np.empty(0), 0.0)}) if isinstance(part, str)
    ]
    assert len(shown) == 1
    assert shown[0].startswith("[yellow]not looked at[/]: face lost (no feature tracks a face); face jumps (no feature")


def test_frames_that_were_not_looked_at_are_not_lost() -> None:
    """Every fifth frame was looked at, and in a third of them no face was found: two gaps of several of them."""
    curves = good()
    tracked = np.full(FRAMES, np.nan, np.float32)
    tracked[::5] = 1
    tracked[50:125:5] = tracked[300:375:5] = 0
    curves.faces = [FaceCurves("dope", tracked)]
    quality = Quality.of(curves)
    (finding,) = quality.findings
    assert not missing(finding.message, "dope", "no face in 33.3%")
    np.testing.assert_allclose(finding.spans, [(50 / 15, 125 / 15), (300 / 15, 375 / 15)])
    assert list(quality.not_looked_at) == [Rule.FACE_JUMP]


def test_a_face_that_is_found_nowhere_is_a_finding_of_each_feature_that_looked_for_it() -> None:
    curves = good()
    curves.faces.append(FaceCurves("mediapipe", np.zeros(FRAMES, np.float32)))
    (finding,) = Quality.of(curves).findings
    assert not missing(finding.message, "mediapipe", "no face in 100.0%")
    assert finding.spans == ((0.0, SECONDS),)


def test_a_face_that_jumps_to_another_person_and_back() -> None:
    curves = good()
    squares = curves.faces[0].squares
    squares[:, 0] += np.linspace(0, 200, FRAMES)  # who walks through the picture does not jump
    squares[100:103, 0] += 121
    squares[300:303, 2] *= 1.7  # nobody comes so much nearer within a fifteenth of a second
    squares[200:202] = np.nan
    curves.faces[0].tracked[200:202] = 0
    squares[202:, 0] += 110  # almost a side, over three frames
    (finding,) = Quality.of(curves).findings
    assert finding.rule is Rule.FACE_JUMP
    assert not missing(finding.message, "openface", "4 times", "1.0")
    np.testing.assert_allclose(np.array(finding.spans) * FPS, [(99, 100), (102, 103), (299, 300), (302, 303)])


def test_a_face_that_comes_back_later_may_be_elsewhere() -> None:
    curves = good()
    curves.faces[0].tracked[100:104] = 0
    curves.faces[0].squares[100:104] = np.nan
    curves.faces[0].squares[104:, 0] += 500
    assert Quality.of(curves).findings == []
    curves.faces[0].tracked[104::5] = 1  # and with frames further apart than that nothing is compared
    for frame in range(FRAMES):
        if frame % 5:
            curves.faces[0].tracked[frame] = np.nan
            curves.faces[0].squares[frame] = np.nan
    assert list(Quality.of(curves).not_looked_at) == [Rule.FACE_JUMP]


def test_a_lost_face() -> None:
    curves = good()
    tracked = curves.faces[0].tracked
    tracked[between(curves.time, 10, 16)] = 0
    assert Quality.of(curves).findings == []  # exactly 20 %
    tracked[between(curves.time, 20, 20.2)] = 0
    finding = the_only(curves)
    assert finding.rule is Rule.FACE_LOST
    assert not missing(finding.message, "openface", "no face in 20.7%")
    assert finding.spans == ((10.0, 16.0),)  # the gap of a fifth of a second is not worth a line


def test_silence() -> None:
    curves = good()
    curves.loudness[between(curves.sound_time, 18, 27.9)] = -70
    assert Quality.of(curves).findings == []
    curves.loudness[between(curves.sound_time, 18, 29)] = -70
    finding = the_only(curves)
    assert finding.rule is Rule.SILENCE
    np.testing.assert_allclose(finding.spans, [(18, 29)])


def test_sound_that_is_too_loud() -> None:
    curves = good()
    curves.loudness[between(curves.sound_time, 5, 5.1) | between(curves.sound_time, 5.2, 5.3)] = -3
    finding = the_only(curves)
    assert finding.rule is Rule.CLIPPING
    np.testing.assert_allclose(finding.spans, [(5, 5.3)])


def write_wav(path: Path, samples: np.ndarray, rate: int = 48_000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def test_clipped_samples_of_either_channel(tmp_path: Path) -> None:
    time = np.arange(5 * 48_000) / 48_000
    tone = np.sin(2 * np.pi * 200 * time)
    quiet, loud = 0.3 * tone, np.where((time >= 2) & (time < 3), 1.5, 0.99) * tone
    samples = np.stack([quiet, loud.clip(-1, 1)], axis=1) * 32_767
    (span,) = find_clipped(write_wav(tmp_path / "clipped.wav", samples))
    np.testing.assert_allclose(span, (2, 3), atol=0.003)
    samples[:, 1] = 0.99 * tone * 32_767
    assert find_clipped(write_wav(tmp_path / "fits.wav", samples)) == ()
    curves = good()
    curves.clipped = (span,)
    assert the_only(curves).rule is Rule.CLIPPING
    assert the_only(curves).spans == (span,)


def test_a_clipped_run_across_two_decoded_blocks(tmp_path: Path) -> None:
    for start in range(1020, 1030):  # blocks of a WAV file are 1024 or more samples long, a power of two
        samples = np.zeros((10_000, 1))
        samples[start : start + 3] = 32_767
        ((first, stop),) = find_clipped(write_wav(tmp_path / "x.wav", samples))
        np.testing.assert_allclose((first, stop), (start / 48_000, (start + 3) / 48_000), atol=1e-6)


def test_clipping_is_told_in_seconds_of_the_recording(tmp_path: Path) -> None:
    from support.media.recordings import write_recording

    sound = np.zeros((32_000, 2), np.int16)
    sound[8000:8100, 1] = 32_767
    path = write_recording(tmp_path / "v.mkv", 10, sound, picture_at_s=1.2, sound_at_s=1.5)
    for zero_s, expected in ((1.2, 0.8), (None, 0.5)):
        ((first, _),) = find_clipped(path, zero_s)
        assert first == pytest.approx(expected, abs=1e-6)


def test_a_finding_of_clipping_says_what_counts_as_clipped() -> None:
    finding = the_only(dataclasses.replace(good(), clipped=((1.0, 1.5),)))
    assert finding.rule is Rule.CLIPPING
    assert f"{RUN} samples in a row" in finding.rule_text


def test_a_frozen_picture() -> None:
    curves = good()
    curves.change[between(curves.time, 12, 13)] = 0
    finding = the_only(curves)
    assert finding.rule is Rule.FROZEN
    np.testing.assert_allclose(finding.spans, [(12, 13)])


def test_duplicated_frames() -> None:
    curves = good()
    curves.change[2::15] = 0
    finding = the_only(curves)
    assert finding.rule is Rule.DUPLICATED
    assert "6.7% of the frames" in finding.message


@pytest.mark.parametrize(("end_s", "longer"), [(28.0, "picture"), (33.0, "sound")])
def test_sound_and_picture_of_different_lengths(end_s: float, longer: str) -> None:
    curves = good()
    curves.sound_end_s = end_s
    finding = the_only(curves)
    assert finding.rule is Rule.LENGTHS
    assert finding.message.startswith(f"the {longer} goes on")
    assert finding.spans == ((min(end_s, 30.0), max(end_s, 30.0)),)


@pytest.mark.parametrize(("begins_s", "expected"), [(0.3, None), (3.0, "3.00 s after"), (-2.0, "2.00 s before")])
def test_sound_that_does_not_begin_with_the_picture(begins_s: float, expected: str | None) -> None:
    curves = good()
    curves.sound_time = curves.sound_time + begins_s
    if expected is None:
        assert not [finding for finding in Quality.of(curves).findings if finding.rule is Rule.LENGTHS]
    else:
        (finding,) = [finding for finding in Quality.of(curves).findings if finding.rule is Rule.LENGTHS]
        assert finding.message == f"the sound begins {expected} the picture"
        assert finding.spans == ((min(begins_s, 0.0), max(begins_s, 0.0)),)


def test_times_that_jump() -> None:
    curves = good()
    curves.time[200:] += 0.5
    curves.end_s = 30.4
    finding = the_only(curves)
    assert finding.rule is Rule.JUMP
    np.testing.assert_allclose(finding.spans, [(199 / 15, 200 / 15 + 0.5)])


def test_a_transcript_where_nobody_speaks() -> None:
    curves = good()
    curves.f0[between(curves.sound_time, 0.5, 8.5)] = np.nan
    finding = the_only(curves)
    assert finding.rule is Rule.OUTSIDE_SPEECH
    assert finding.spans == ((1.0, 8.0),)


def test_an_older_recordings_features_are_not_drawn_over_a_newer_ones(store_root) -> None:
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(30) / FPS)
        out.publish("f", {})
    with FeatureWriter(local(store_root), "a", FEATURES["resnet50"]) as out:
        out.write("values", np.ones((29, 2048), np.float16))
        out.publish("f", {})
    catalogue.compact(local(store_root))
    curves = read_curves(FeatureStore(store_root), "a")
    assert curves.change is None
    assert the_only(curves).rule is Rule.MISFIT
    assert not missing(the_only(curves).message, "resnet50 has 29 rows", "30 frames")


def test_the_change_of_the_picture_across_blocks(store_root, monkeypatch) -> None:
    generator = np.random.default_rng(1)
    values = generator.normal(size=(50, 2048)).astype(np.float16)
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(50) / FPS)
        out.publish("f", {})
    with FeatureWriter(local(store_root), "a", FEATURES["resnet50"]) as out:
        out.write("values", values)
        out.publish("f", {})
    catalogue.compact(local(store_root))
    exact = values.astype(np.float64)
    expected = np.linalg.norm(np.diff(exact, axis=0), axis=1) / np.linalg.norm(exact, axis=1).mean()
    for block in (7, 25, 4096):
        monkeypatch.setattr("tasks.inspect.array_curves._BLOCK", block)
        change = read_curves(FeatureStore(store_root), "a").change
        assert np.isnan(change[0])
        np.testing.assert_allclose(change[1:], expected, rtol=1e-5)
