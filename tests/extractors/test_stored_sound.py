"""The stored openSMILE values against openSMILE itself: what is heard, how loud, how filtered, and when."""

from __future__ import annotations

import json
import re
from pathlib import Path

import av
import numpy as np
import opensmile
import pandas as pd
import pytest
from support.media.recordings import FPS, with_damaged_sound, write_recording, write_streams, write_wave
from support.messages import missing
from support.studies import extract_session, make_study

from flows.cli.status_tables import status_tables
from storyframes.features import COMPARE_2016_COLUMNS
from storyframes.store import record_status
from tasks.extractors.base import InputFile, Source
from tasks.extractors.opensmile.feature_sets import UNDEFINED, FeatureSet
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.sound import read_audio

SECONDS = 2.0


def voices(channels: int, rate: int, seconds: float = SECONDS) -> np.ndarray:
    """(n, channels) int16: in every channel another voice of another loudness, with hiss up to the highest pitch."""
    time = np.arange(round(rate * seconds)) / rate
    hiss = np.random.default_rng(0)
    made = []
    for channel in range(channels):
        pitch = (90 + 45 * channel) * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * time))
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voice = sum(np.sin(k * phase + k) / k for k in range(1, 30)) * (1.2 + np.sin(2 * np.pi * 1.3 * time))
        voice += 0.3 * np.abs(voice).max() * hiss.uniform(-1, 1, len(time))
        made.append(voice / np.abs(voice).max() * 0.95 / (1 + channel / 4))
    return (np.stack(made, axis=1) * 32767).astype(np.int16)


def librarys(path: Path, channels: int) -> np.ndarray:
    """What openSMILE says of a sound file: it decodes, averages and resamples by itself (audiofile, audresample).

    NaN stands where it has no value (:mod:`tests.extractors.test_undefined_sound` shows which these are).
    """
    smile = opensmile.Smile(
        feature_set=opensmile.FeatureSet.ComParE_2016,
        feature_level=opensmile.FeatureLevel.LowLevelDescriptors,
        channels=range(channels),
        mixdown=True,
        resample=True,
        sampling_rate=16_000,
    )
    rows = smile.process_file(str(path)).to_numpy(np.float32)
    return np.concatenate(list(UNDEFINED[FeatureSet.COMPARE_2016].blank([rows], COMPARE_2016_COLUMNS)))


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("sidecar", [False, True])
def test_stored_descriptors_are_those_of_the_mean_of_all_channels(tmp_path: Path, channels: int, sidecar: bool) -> None:
    """To the bit. So no channel is left out, none weighs more, and nothing is louder than it was recorded."""
    sound = voices(channels, 16_000)
    wave = write_wave(tmp_path / "s.wav", sound, 16_000)
    write_recording(tmp_path / "v.mkv", round(SECONDS * FPS), None if sidecar else sound)
    files = {"video": "v.mkv", "audio": "s.wav"} if sidecar else {"video": "v.mkv"}
    store, outcomes = extract_session(make_study(tmp_path, **files), tmp_path / "features", "opensmile")
    np.testing.assert_array_equal(store.read("s", "opensmile"), librarys(wave, channels))
    assert outcomes["opensmile"].caveats == ()


@pytest.mark.parametrize("rate", [44_100, 48_000])
def test_stored_descriptors_are_of_filtered_sound_where_it_is_resampled(tmp_path: Path, rate: int) -> None:
    """Two good resamplers differ by little; one without a filter folds the hiss above 8 kHz into the voice."""
    sound = voices(2, rate)
    wave = write_wave(tmp_path / "s.wav", sound, rate)
    write_recording(tmp_path / "v.mkv", round(SECONDS * FPS), sound, rate)
    store, _ = extract_session(make_study(tmp_path, video="v.mkv"), tmp_path / "features", "opensmile")
    stored, expected = store.read("s", "opensmile"), librarys(wave, 2)
    assert stored.shape == expected.shape
    relative = np.abs(stored - expected) / (pd.DataFrame(expected).std().to_numpy() + 1e-9)
    assert np.nanmedian(relative) < 0.005  # 0.3 without a filter
    energy = COMPARE_2016_COLUMNS.index("pcm_RMSenergy_sma")
    np.testing.assert_allclose(stored[3:-3, energy], expected[3:-3, energy], rtol=0.01)


@pytest.mark.parametrize(
    ("picture_at_s", "sound_at_s"), [(0.0, 0.0), (0.0, 0.32), (0.4, 0.68), (0.72, 0.4), (1.4, 1.4)]
)
def test_the_stored_times_count_from_the_first_frame(tmp_path: Path, picture_at_s: float, sound_at_s: float) -> None:
    sound = voices(2, 16_000, 3.0)
    path = tmp_path / "v.mkv"
    write_recording(path, 60, sound, picture_at_s=picture_at_s, sound_at_s=sound_at_s)
    store, _ = extract_session(make_study(tmp_path, video="v.mkv"), tmp_path / "features", "opensmile")
    time, values = store.read("s", "opensmile", array="time"), store.read("s", "opensmile")
    np.testing.assert_allclose(time, sound_at_s - picture_at_s + np.arange(len(values)) / 100, atol=1e-9)
    per_frame = store.read("s", "opensmile", array="per_frame")
    hundredths = np.rint(time * 100).astype(int)
    for frame in range(60):  # 4 rows each at 25 frames a second; NaN where there is no sound
        rows = values[(hundredths >= 4 * frame) & (hundredths < 4 * frame + 4)]
        assert len(rows) in (0, 4)
        expected = pd.DataFrame(rows, dtype=float).mean(skipna=True)
        np.testing.assert_allclose(per_frame[frame], expected, rtol=1e-5, atol=1e-5)


CONTAINERS = [
    ("v.mkv", "pcm_s16le"),
    ("v.mov", "pcm_s16le"),
    ("v.mp4", "aac"),
    ("v.ts", "mp2"),
    ("v.mkv", "libopus"),
    ("v.wmv", "wmav2"),
]


@pytest.mark.parametrize(
    ("name", "codec", "picture_at_s"),
    [
        ("v.avi", "pcm_s16le", 0.0),  # whose streams begin together
        *((*each, picture_at_s) for each in CONTAINERS for picture_at_s in (0.0, 0.48)),
    ],
)
def test_what_is_heard_with_a_frame_is_stored_at_the_frames_time(
    tmp_path: Path, name: str, codec: str, picture_at_s: float
) -> None:
    """A beep that begins one second after the first frame is shown, whatever the container's clock and delays."""
    sound = np.zeros((96_000, 2))
    begins = round(48_000 * (1.0 + picture_at_s))
    sound[begins : begins + 24_000] = 9000 * np.sin(np.arange(24_000) / 10)[:, None]
    write_recording(tmp_path / name, 50, sound, 48_000, picture_at_s=picture_at_s, codec=codec)
    store, _ = extract_session(make_study(tmp_path, video=name), tmp_path / "features", "opensmile")
    assert store.read("s", "frames", array="time")[0] == 0
    energy = store.read("s", "opensmile")[:, COMPARE_2016_COLUMNS.index("pcm_RMSenergy_sma")]
    begun = store.read("s", "opensmile", array="time")[np.flatnonzero(energy > energy.max() / 2)[0]]
    assert begun + 0.03 == pytest.approx(1.0, abs=0.05), (name, codec)  # a row's window is 60 ms long


@pytest.mark.parametrize("name", ["s.ts", "s.mkv", "s.wmv", "s.m4a"])
def test_a_sidecar_begins_at_second_0_whatever_its_own_clock_says(tmp_path: Path, name: str) -> None:
    codecs = {"s.ts": "mp2", "s.mkv": "pcm_s16le", "s.wmv": "wmav2", "s.m4a": "aac"}
    write_recording(tmp_path / name, 50, voices(2, 16_000), picture_at_s=2, sound_at_s=1.5, codec=codecs[name])
    write_recording(tmp_path / "v.mkv", 50, picture_at_s=0.5)
    study = make_study(tmp_path, video="v.mkv", audio=name)
    store, _ = extract_session(study, tmp_path / "features", "opensmile")
    assert store.read("s", "opensmile", array="time")[0] == 0


@pytest.mark.parametrize(
    ("sound_s", "sound_at_s", "caveats"),
    [
        (8.0, 0.0, ()),
        (7.6, 0.3, ()),
        (3.0, 0.0, ("sound shorter than the picture",)),
        (6.0, 2.0, ("sound shorter than the picture",)),
        (9.0, 0.0, ("sound longer than the picture",)),
    ],
)
def test_sound_that_does_not_fit_the_picture_has_a_caveat(
    tmp_path: Path, sound_s: float, sound_at_s: float, caveats: tuple[str, ...]
) -> None:
    sound = voices(1, 16_000, sound_s)
    write_recording(tmp_path / "v.mkv", 8 * FPS, sound, sound_at_s=sound_at_s)
    store, outcomes = extract_session(make_study(tmp_path, video="v.mkv"), tmp_path / "features", "opensmile")
    assert outcomes["opensmile"].caveats == caveats
    (row,) = store.catalogue[store.catalogue["feature"] == "opensmile"].itertuples()
    assert tuple(row.stamps) == caveats
    notes = [str(note) for note in status_tables(list(record_status.scan(store.storage)))]
    assert [f"* caveat[/] of opensmile: {caveat} (s)" in " ".join(notes) for caveat in caveats] == [True] * len(caveats)
    assert json.loads(row.quality)["audio_s"] == pytest.approx(sound_s, abs=0.001)
    assert json.loads(row.quality)["audio_start_s"] == pytest.approx(sound_at_s, abs=0.001)


def test_a_sidecar_of_another_length_has_a_caveat(tmp_path: Path) -> None:
    write_recording(tmp_path / "v.mkv", 8 * FPS)
    write_wave(tmp_path / "s.wav", voices(1, 16_000, 5.0), 16_000)
    study = make_study(tmp_path, video="v.mkv", audio="s.wav")
    _, outcomes = extract_session(study, tmp_path / "features", "opensmile")
    assert outcomes["opensmile"].caveats == ("sound shorter than the picture",)


def test_resampling_keeps_what_is_below_and_removes_what_is_above(tmp_path: Path) -> None:
    """Against the definition, not another resampler: a tone stays as loud as it was, or is gone."""
    time = np.arange(96_000) / 48_000
    for hertz, lowest_db, highest_db in ((100, -0.1, 0.1), (7000, -0.1, 0.1), (8300, -400, -80), (15_000, -400, -80)):
        tone = (np.sin(2 * np.pi * hertz * time) * 16_000).astype(np.int16)
        write_wave(tmp_path / "tone.wav", tone, 48_000)
        heard = np.concatenate([block.samples for block in read_audio(tmp_path / "tone.wav", 16_000)])
        assert len(heard) == 32_000
        level = 20 * np.log10(heard[500:-500].std() / (16_000 / 32_768 / np.sqrt(2)) + 1e-12)
        assert lowest_db < level < highest_db, (hertz, level)


def write_floats(path: Path, samples: np.ndarray) -> Path:
    """A WAV file of 32-bit floating-point numbers."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_f32le", rate=16_000, layout="mono")
        block = av.AudioFrame.from_ndarray(samples.astype(np.float32)[None], format="flt", layout="mono")
        block.sample_rate = 16_000
        container.mux(stream.encode(block))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("peak", [1.5, 4.0])
def test_floating_point_sound_beyond_full_scale_is_refused(tmp_path: Path, peak: float) -> None:
    """And its message has the command that makes a copy which is taken."""
    sound = voices(1, 16_000)[:, 0] / 32_768
    sound *= 0.9 / np.abs(sound).max()
    sound[24_000] = -peak
    write_floats(tmp_path / "s.wav", sound)
    study = make_study(tmp_path, audio="s.wav")
    _, outcomes = extract_session(study, tmp_path / "features", "opensmile")
    reason = outcomes["opensmile"].reason
    assert not missing(reason, "s.wav", f"{peak:g}")
    decibels = float(re.search(r"volume=(-[\d.]+)dB", reason)[1])
    write_floats(tmp_path / "s.wav", sound * 10 ** (decibels / 20))
    store, outcomes = extract_session(study, tmp_path / "features", "opensmile")
    assert outcomes["opensmile"].reason == ""
    assert not np.isnan(store.read("s", "opensmile")[:, COMPARE_2016_COLUMNS.index("pcm_RMSenergy_sma")]).any()


def test_floating_point_sound_at_full_scale_is_taken(tmp_path: Path) -> None:
    sound = voices(1, 16_000)[:, 0].astype(np.float64)
    write_floats(tmp_path / "s.wav", sound / np.abs(sound).max())
    _, outcomes = extract_session(make_study(tmp_path, audio="s.wav"), tmp_path / "features", "opensmile")
    assert outcomes["opensmile"].reason == ""


def test_the_feature_says_that_its_sound_is_damaged(tmp_path: Path) -> None:
    write_recording(tmp_path / "whole.mp4", 2 * FPS, voices(1, 16_000), codec="flac")
    with_damaged_sound(tmp_path / "whole.mp4", tmp_path / "v.mp4", [2])
    store, outcomes = extract_session(make_study(tmp_path, video="v.mp4"), tmp_path / "features", "opensmile")
    assert outcomes["opensmile"].caveats == ("damaged sound",)
    (row,) = store.catalogue[store.catalogue["feature"] == "opensmile"].itertuples()
    assert '"damaged_sound_packets": 1' in row.quality


def test_the_sound_stream_that_the_configuration_names_is_described(tmp_path: Path) -> None:
    first, second = voices(1, 16_000), voices(2, 16_000)
    write_streams(tmp_path / "v.mkv", {"eng": first, "fra": second})
    study = make_study(tmp_path, video="v.mkv")
    for number, sound in ((0, first), (1, second)):
        recording = {"sound_stream": number}
        store, outcomes = extract_session(study, tmp_path / "features", "opensmile", recording=recording)
        assert not outcomes["opensmile"].skipped
        expected = librarys(write_wave(tmp_path / "s.wav", sound, 16_000), sound.shape[1])
        np.testing.assert_array_equal(store.read("s", "opensmile"), expected)


@pytest.mark.parametrize("feature", ["opensmile", "speaking"])
def test_stores_of_before_there_was_a_choice_of_sounds_stay_current(feature: str) -> None:
    source = Source("s", {"video": InputFile(Path("v.mkv"), "v.mkv", "0" * 64, 1, 1)})
    default, second = (
        build_extractors(ExtractorsSettings(recording=choice), "s")[feature].fingerprint(source).settings
        for choice in ({}, {"sound_stream": 1})
    )
    assert "sound_stream" not in default
    assert second == default | {"sound_stream": 1}
