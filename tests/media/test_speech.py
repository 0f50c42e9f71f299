"""How likely somebody speaks, by the loudness of microphones: their noise, and planted and recorded voices."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.media.conversations import RATE
from support.media.recordings import write_wave
from support.voices.talks import ROOMS, compose_talk

from storyframes.times import SESSION_CLOCK
from tasks.media.sound_bands import SoundBands
from tasks.media.speech import evidence, probability


def test_of_three_nobody_is_named_while_one_microphone_is_off() -> None:
    """The two others are recorded, but it could be the third one who is heard."""
    own, quiet, off = np.full(4, 20.0), np.array([0, 5, 0, np.nan]), np.array([3, np.nan, np.nan, np.nan])
    shown = evidence(own, [quiet, off], None)
    np.testing.assert_array_equal(shown[:, 1], [17, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(np.isnan(probability(shown, of_anybody=False)), [False, True, True, True])


@pytest.mark.parametrize(("silent", "over_db"), [(20, 15.0), (11, 15.0), (10, 0.0), (5, 0.0)])  # of 100 steps
def test_a_gated_microphone_s_noise_is_below_its_softest_speech(silent: int, over_db: float) -> None:
    levels = np.where(np.arange(100) < silent, -100.0, -40.0)
    np.testing.assert_allclose(SoundBands.over_floor(levels)[silent:], over_db)


def test_a_microphone_s_noise_is_the_hundredth_of_its_steps_that_are_softest() -> None:
    np.testing.assert_allclose(SoundBands.over_floor(np.arange(101.0) - 90), np.arange(101) - 1)


def test_sound_from_before_a_microphone_is_plugged_in_is_not_its_noise() -> None:
    levels = np.where(np.arange(200) < 8, -90.0, -50.0)
    np.testing.assert_allclose(SoundBands.over_floor(levels)[8:], 15.0)


def speech_levels(generator: np.random.Generator, share: float, steps: int = 3000) -> np.ndarray:
    """(steps,) dB over the noise of somebody who speaks in this share of the steps, with syllables and short pauses."""
    runs = generator.random(steps // 20) < share
    loud = 28 + 7 * generator.standard_normal(steps)
    return np.where(np.repeat(runs, 20), loud, -np.inf)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.98])
def test_a_person_who_never_speaks_does_not_speak_in_a_monologue(share: float) -> None:
    generator = np.random.default_rng(3)
    spoken = speech_levels(generator, share)
    microphones = []
    for crosstalk_db in (0.0, -12.0):
        noise_db, heard_db = generator.normal(0, 0.5, len(spoken)), spoken + crosstalk_db
        levels = 10 * np.log10(10 ** (noise_db / 10) + 10 ** (heard_db / 10)) - 60
        microphones.append(SoundBands.over_floor(levels))
    silent = probability(evidence(microphones[1], [microphones[0]], None), of_anybody=False)
    speaker = probability(evidence(microphones[0], [microphones[1]], None), of_anybody=False)
    assert np.mean(silent > 0.5) < 0.02
    assert np.mean((speaker > 0.5) == (spoken > 0)) > 0.9


@pytest.mark.parametrize(("rise_db", "varies"), [(0.0, False), (12.0, True)])
def test_automatic_gain_is_noticed_by_the_noise_in_pauses(rise_db: float, varies: bool) -> None:
    generator = np.random.default_rng(4)
    pause = generator.normal(-60, 0.3, (20, 20)) + rise_db * np.linspace(0, 1, 20)  # of 0.8 s, in steps of 40 ms
    levels = np.concatenate([generator.normal(-30, 7, (20, 40)), pause], axis=1).ravel()
    power = np.repeat(10 ** (levels / 10), 10)[:, None].astype(np.float32)
    assert SoundBands(0.0, power).has_varying_noise is varies
    assert not SoundBands(0.0, power[:50]).has_varying_noise


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs("real voices")
@pytest.mark.parametrize(("style", "room"), [*product(("monologue", "lecture", "nonstop", "talk"), ("office", "hall"))])
def test_of_recorded_voices_each_one_speaks_where_she_does(style: str, room: str, tmp_path: Path) -> None:
    said = compose_talk(7, ("ru", "it-2", "en"), ROOMS[room], style=style)
    steps = said.speaks.shape[1]
    over = []
    for sound in said.microphones:
        bands = SoundBands.read(write_wave(tmp_path / "said.wav", sound * 32767, RATE), None)
        over.append(SoundBands.over_floor(bands.levels(SESSION_CLOCK, SESSION_CLOCK, steps, 0.1)))
    others = [over[:person] + over[person + 1 :] for person in range(len(over))]
    found = [probability(evidence(own, of, None), of_anybody=False) > 0.5 for own, of in zip(over, others, strict=True)]
    assert np.mean(found == said.speaks) > 0.95
    silent = [speaks.mean() for speaks, truth in zip(found, said.speaks, strict=True) if not truth.any()]
    assert max(silent, default=0) < 0.02
