"""Crosstalk is found by how loud all microphones are, whatever was heard."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from storyframes_transcribe.crosstalk import STEP_S, find_crosstalk
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.words import HeardWord

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

NOISE_DB, VOICE_DB, SOFTER_DB = -70.0, -30.0, 12.0


def levels(speaks: dict[str, list[tuple[float, float]]], seconds: float = 12.0) -> dict[str, np.ndarray]:
    """Of microphones that hear the others 12 dB softer than their own person."""
    time = (np.arange(round(seconds / STEP_S)) + 0.5) * STEP_S

    def power(name: str) -> np.ndarray:
        is_voice = np.any([(time >= start) & (time < end) for start, end in speaks[name]], axis=0)
        return np.where(is_voice, 10 ** (VOICE_DB / 10), 0.0)

    softer = 10 ** (-SOFTER_DB / 10)
    return {
        name: 10 * np.log10(
            power(name) + sum(softer * power(other) for other in speaks if other != name) + 10 ** (NOISE_DB / 10)
        )
        for name in speaks
    }  # fmt: skip


def word(start_s: float, end_s: float, text: str = "velvet") -> HeardWord:
    return HeardWord(text, start_s, end_s, 0.75)


TURNS = {"a": [(1.0, 2.0), (5.0, 6.0)], "b": [(3.0, 4.0), (5.0, 6.0)]}  # at the end both


def marks(words: list[HeardWord], microphones: dict[str, np.ndarray], name: str = "a") -> list[str]:
    found = find_crosstalk({name: words}, microphones, 3.0)
    return [
        "removed" if removed else "uncertain" if doubtful else "clear"
        for removed, doubtful in zip(found.is_crosstalk[name], found.is_uncertain[name], strict=True)
    ]


def test_a_word_is_another_persons_where_only_that_one_is_loud_whatever_its_text_and_time() -> None:
    words = [word(1.2, 1.6), word(3.1, 3.4, "velvet"), word(3.5, 4.2, "something else"), word(5.2, 5.6), word(8.0, 8.4)]
    assert marks(words, levels(TURNS)) == ["clear", "removed", "removed", "uncertain", "clear"]
    assert marks(words, levels(TURNS), "b") == ["removed", "clear", "clear", "uncertain", "clear"]


def test_a_word_that_reaches_into_ones_own_voice_stays() -> None:
    """Its times are the recogniser's, and may be off by some tenths of a second."""
    turns = {"a": [(1.0, 2.0)], "b": [(0.2, 1.0)]}
    words = [word(0.9, 1.5), word(0.6, 1.5), word(0.7, 1.1), word(0.3, 0.9)]
    assert marks(words, levels(turns)) == ["clear", "uncertain", "uncertain", "removed"]


def test_echo_in_the_pauses_of_a_neighbour_is_no_voice_of_ones_own() -> None:
    """A neighbour's own microphone is silent between syllables, where the room still sounds in this one."""
    turns = {"a": [(1.0, 2.0)], "b": [(3.0, 3.16), (3.32, 3.48), (3.64, 3.8)]}
    microphones = levels(turns)
    time = (np.arange(len(microphones["a"])) + 0.5) * STEP_S
    microphones["a"][(time > 3.0) & (time < 4.0)] = VOICE_DB - SOFTER_DB - 4
    assert marks([word(3.0, 3.48), word(3.2, 3.8), word(1.2, 1.9)], microphones) == ["removed", "removed", "clear"]


def test_a_soft_word_during_anothers_is_kept_where_microphones_hardly_hear_each_other() -> None:
    microphones = {name: np.where(one < VOICE_DB - 6, NOISE_DB, one) for name, one in levels(TURNS).items()}
    time = (np.arange(len(microphones["a"])) + 0.5) * STEP_S
    microphones["a"][(time > 5.2) & (time < 5.6)] -= 8
    assert marks([word(5.2, 5.6), word(1.2, 1.6)], microphones) == ["uncertain", "clear"]


def test_nothing_is_removed_where_the_others_are_not_recorded() -> None:
    microphones = levels(TURNS)
    words = [word(1.2, 1.6), word(3.1, 3.4)]
    assert marks(words, {"a": microphones["a"]}) == ["clear", "clear"]
    assert marks(words, microphones | {"b": np.full_like(microphones["b"], np.nan)}) == ["clear", "clear"]
    assert marks([word(40.0, 41.0), word(-2.0, -1.0)], microphones) == ["clear", "clear"]


def test_of_three_microphones_the_loudest_one_counts() -> None:
    turns = {"a": [(1.0, 2.0)], "b": [(3.0, 4.0)], "c": [(5.0, 6.0)]}
    words = [word(1.2, 1.6), word(3.2, 3.6), word(5.2, 5.6)]
    for place, name in enumerate(turns):
        expected = ["removed"] * 3
        expected[place] = "clear"
        assert marks(words, levels(turns), name) == expected


def test_words_as_loud_on_both_would_lose_both_with_a_difference_of_0_db() -> None:
    with pytest.raises(ValidationError, match="crosstalk_db"):
        TranscribeSettings(crosstalk_db=0)
