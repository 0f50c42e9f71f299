"""Clocks from sound: what was put into recordings is found, and what cannot be told is refused."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from storyframes_sync.match_sound import Match, SyncError, match_sound
from support.media.recordings import write_wave
from support.media.speech import RATE, recorded, speech

from storyframes.times import Clock
from tasks.media.sound_bands import SoundBands

ROOM = speech(200, 1)
NOTHING_IN_COMMON = "nothing in common"
REPEATS = "repeats itself"


@pytest.fixture
def listen(tmp_path: Path):
    """What a file with these samples sounds like."""
    numbers = itertools.count()

    def read(samples: np.ndarray, rate: int = RATE) -> SoundBands:
        return SoundBands.read(write_wave(tmp_path / f"{next(numbers)}.wav", samples, rate), None)

    return read


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SoundBands:
    path = tmp_path_factory.mktemp("sync") / "session.wav"
    return SoundBands.read(write_wave(path, recorded(ROOM, 0, 180, 100), RATE), None)


def worst_error_s(match: Match, start_s: float, ppm: float, seconds: float) -> float:
    """How far the clock is off anywhere in what a device recorded that began at ``start_s`` and is ``ppm`` fast."""
    device_s = np.linspace(0, seconds, 50)
    found = Clock("c", match.device_s, match.session_s).to_session(device_s)
    return float(np.abs(found - (start_s + device_s / (1 + ppm * 1e-6))).max())


def refused(one: SoundBands, other: SoundBands) -> str:
    with pytest.raises(SyncError) as error:
        match_sound(one, other)
    return str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("snr", [30, 10, 0, -6])
@pytest.mark.parametrize("ppm", [0, 40, -120])
def test_offset_and_drift_are_found(listen, session: SoundBands, ppm: float, snr: float) -> None:
    device = listen(recorded(ROOM, 3.2, 170, 7, ppm=ppm, snr=snr, rate=8_000), 8_000)
    match = match_sound(session, device)
    assert worst_error_s(match, 3.2, ppm, 170) < 0.01
    assert match.agreeing > 0.9 * match.pieces
    assert match.residual_ms < 3
    if snr >= 0:
        assert (len(match.device_s) == 2) == (ppm != 0)
        assert match.drift_ppm == pytest.approx(ppm, abs=15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"rate": 48_000, "channels": 2},
        {"rate": 44_100, "gain": 0.01, "snr": 10},
        {"rate": 8_000, "channels": 2, "snr": 5},
        {"rate": 22_050, "gain": 1.0},
    ],
    ids=str,
)
def test_another_microphone_writes_other_files(listen, session: SoundBands, how: dict) -> None:
    device = listen(recorded(ROOM, 3.2, 120, 11, ppm=40, **how), how["rate"])
    assert worst_error_s(match_sound(session, device), 3.2, 40, 120) < 0.01


@pytest.mark.parametrize(
    ("start_s", "seconds"),
    [(140.0, 55), (60.0, 35), (-20.0, 100), (-10.0, 200), (0.0, 33)],
    ids=["ends later", "within", "began before", "longer at both ends", "short"],
)
def test_recordings_that_overlap_in_part(listen, session: SoundBands, start_s: float, seconds: float) -> None:
    match = match_sound(session, listen(recorded(np.concatenate([speech(20, 2), ROOM]), start_s + 20, seconds, 3)))
    # The room of this test begins 20 s before the session, with sound that the session did not record.
    assert worst_error_s(match, start_s, 0, seconds) < 0.01
    shared = min(180, start_s + seconds) - max(0, start_s)
    assert match.shared_s == pytest.approx(shared, abs=0.1)


@pytest.mark.slow
def test_two_people_each_with_a_microphone(listen) -> None:
    """Each hears the other 20 dB lower, and 4 ms later."""
    turns = np.sin(2 * np.pi * np.arange(len(ROOM)) / RATE / 9) > 0
    one, other, later = ROOM * turns, speech(200, 5) * ~turns, RATE * 4 // 1000
    first = recorded(one + 0.1 * np.roll(other, later), 0, 180, 1, filtered=False)
    second = recorded(other + 0.1 * np.roll(one, later), 3.2, 170, 2, ppm=-120, filtered=False)
    assert worst_error_s(match_sound(listen(first), listen(second)), 3.2, -120, 170) < 0.01


@pytest.mark.slow
def test_the_end_of_a_long_recording_is_right_as_well(listen) -> None:
    """40 ppm over ten minutes are 24 ms."""
    room = np.concatenate([ROOM, speech(200, 21), speech(220, 22)])
    one, other = (
        recorded(room, start_s, 590, seed, ppm=ppm, snr=10, rate=8_000)
        for seed, (start_s, ppm) in enumerate([(0, 0), (3.2, 40)])
    )
    assert worst_error_s(match_sound(listen(one, 8_000), listen(other, 8_000)), 3.2, 40, 590) < 0.005


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [50, 51, 54, 57])
def test_unrelated_recordings_are_refused(listen, session: SoundBands, seed: int) -> None:
    other = listen(recorded(speech(150 + 20 * (seed - 50), seed), 0, 140 + 20 * (seed - 50), seed))
    assert NOTHING_IN_COMMON in refused(session, other)
    assert NOTHING_IN_COMMON in refused(other, session)


@pytest.mark.slow
def test_two_sessions_in_which_a_robot_says_the_same(listen) -> None:
    """What it says is the same to the sample, when it says it is not."""
    prompts = [speech(8, 200 + number) for number in range(8)]

    def made(seed: int) -> np.ndarray:
        random, sound, at = np.random.default_rng(seed), 0.3 * speech(200, 300 + seed), 3.0
        for prompt in prompts:
            sound[int(at * RATE) :][: len(prompt)] = prompt
            at += 8 + random.uniform(6, 16)
        return recorded(sound, 0, 190, seed)

    one, other = made(1), made(2)
    session = listen(one)
    assert refused(session, listen(other))
    assert match_sound(session, listen(one[5 * RATE :])).session_s[0] == pytest.approx(5, abs=0.01)


TIME = np.arange(120 * RATE) / RATE


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros(120 * RATE), "the track's sound is silent"),
        (8000 * np.sin(2 * np.pi * 300 * TIME), "a steady tone"),
        (np.random.default_rng(1).normal(0, 3000, 120 * RATE), NOTHING_IN_COMMON),
        (recorded(ROOM, 3.2, 20, 1), "20 s long: too short"),
        (recorded(ROOM, 3.2, 0.005, 1), "0 s long: too short"),
    ],
    ids=["silence", "hum", "noise", "short", "nothing"],
)
def test_sound_that_tells_nothing_is_refused(listen, session: SoundBands, samples: np.ndarray, reason: str) -> None:
    assert reason in refused(session, listen(samples))
    assert reason.replace("track's", "session's") in refused(listen(samples), session)


def test_the_same_hum_in_two_rooms_is_no_common_sound(listen) -> None:
    hums = [
        8000 * np.sin(2 * np.pi * 300 * TIME + s) + np.random.default_rng(s).normal(0, 50, len(TIME)) for s in (1, 2)
    ]
    assert NOTHING_IN_COMMON in refused(*(listen(hum) for hum in hums))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4, 16, 40])
def test_a_loop_of_music_fits_in_more_than_one_place(listen, seconds: int) -> None:
    loop = np.tile(speech(seconds, 9), 200 // seconds)
    assert REPEATS in refused(listen(recorded(loop, 0, 180, 1)), listen(recorded(loop, 7, 160, 2)))


@pytest.mark.slow
def test_speech_over_a_metronome_is_told_by_the_speech(listen) -> None:
    clicks = np.zeros(len(ROOM), np.float32)
    for at in range(0, len(ROOM) - 800, RATE // 2):
        clicks[at : at + 800] = 0.3 * np.random.default_rng(at).normal(0, 1, 800)
    alone = [listen(recorded(clicks, start, 150, start)) for start in (0, 3)]
    assert refused(*alone)
    both = [listen(recorded(clicks + ROOM, start, 150, start)) for start in (0, 3)]
    assert worst_error_s(match_sound(*both), 3, 0, 150) < 0.01


def test_too_little_in_common_is_refused(listen, session: SoundBands) -> None:
    assert refused(session, listen(recorded(ROOM, 168, 32, 3)))


@pytest.mark.parametrize("lost_s", [0.05, 0.1, 0.7, 12.0])
@pytest.mark.parametrize("at_s", [40, 90, 140])
def test_a_recorder_that_lost_some_sound_is_refused(listen, session: SoundBands, at_s: int, lost_s: float) -> None:
    """One line through such a recording is wrong in a part of it."""
    cut = np.concatenate([ROOM[: at_s * RATE], ROOM[int((at_s + lost_s) * RATE) :]])
    assert "lost some sound" in refused(session, listen(recorded(cut, 3.2, 165, 4)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_s", "seconds", "lost_s"), [(50, 110, 0.07), (50, 110, 9.0), (20, 110, 0.7), (85, 110, 0.07), (130, 165, 0.7)]
)
def test_the_place_of_a_cut_is_named_wherever_most_of_the_recording_lies(
    listen, session: SoundBands, at_s: int, seconds: float, lost_s: float
) -> None:
    """The shorter sound is cut, or the longer one; the shift is that of what follows."""
    cut = np.concatenate([ROOM[: (3 + at_s) * RATE], ROOM[int((3 + at_s + lost_s) * RATE) :]])
    told = refused(session, listen(recorded(cut, 3, seconds, 4)))
    match = re.search(r"from about (\d+) s into the shorter sound on it is shifted by ([+-][\d.]+) s", told)
    assert match, told
    assert float(match[1]) == pytest.approx(at_s, abs=6)
    assert float(match[2]) == pytest.approx(lost_s, abs=0.03)
    told = refused(listen(recorded(cut, 0, 180, 5)), listen(recorded(ROOM, 3, seconds, 4)))
    match = re.search(r"from about (\d+) s into the shorter sound on it is shifted by ([+-][\d.]+) s", told)
    assert match, told
    assert float(match[1]) == pytest.approx(at_s, abs=6)
    assert float(match[2]) == pytest.approx(-lost_s, abs=0.03)


@pytest.mark.parametrize(
    ("at_s", "lost_s", "seconds", "snr"), [(60, 0.3, 80, 0), (50, 2.0, 65, 10), (40, 2.0, 60, 10), (60, 0.3, 85, -5)]
)
def test_a_loss_in_a_short_and_noisy_recording_is_refused(
    listen, session: SoundBands, at_s: int, lost_s: float, seconds: float, snr: float
) -> None:
    """Each piece is short then, and not clear by itself."""
    cut = np.concatenate([ROOM[: at_s * RATE], ROOM[int((at_s + lost_s) * RATE) :]])
    assert refused(session, listen(recorded(cut, 3.2, seconds, 4, snr=snr)))


@pytest.mark.parametrize("lost_s", [0.01, 0.02, 0.03])
def test_a_small_loss_is_refused_or_costs_less_than_the_error_that_is_promised(listen, session, lost_s: float) -> None:
    cut = np.concatenate([ROOM[: 90 * RATE], ROOM[int((90 + lost_s) * RATE) :]])
    try:
        match = match_sound(session, listen(recorded(cut, 3.2, 165, 4)))
    except SyncError:
        return
    found = Clock("c", match.device_s, match.session_s).to_session(np.linspace(0, 165, 100))
    true = 3.2 + np.linspace(0, 165, 100) + lost_s * (np.linspace(0, 165, 100) > 90 - 3.2)
    assert np.abs(found - true).max() < 0.01


def test_another_speed_is_no_drift(listen, session: SoundBands) -> None:
    assert refused(session, listen(recorded(ROOM, 3.2, 165, 4, ppm=1500)))


# --- the oracle ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_offsets_are_those_of_audio_offset_finder(listen, session: SoundBands) -> None:
    """Its answers were recorded: it wants numpy 1. Its own steps are of 16 ms."""
    cases = json.loads(Path(__file__).with_name("audio_offset_finder.json").read_text())["cases"]
    assert len(cases) >= 6
    for case in cases:
        device = listen(recorded(ROOM, case["start_s"], case["seconds"], case["seed"], snr=case["snr"]))
        match = match_sound(session, device)
        assert match.session_s[0] - match.device_s[0] == pytest.approx(case["offset_s"], abs=0.016)
