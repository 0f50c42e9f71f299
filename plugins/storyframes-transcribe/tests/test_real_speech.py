"""Real models of Whisper on recordings of people, where they have been fetched (`make voices`)."""

from __future__ import annotations

import numpy as np
import pytest
from support.voices import human

from benchmarks.extracting.transcripts import TURNS, Heard, alone, conversation, transcribed

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs("espeak-ng", "faster_whisper", "real voices")]


@pytest.fixture(scope="module")
def talk() -> Heard:
    """Two persons with a microphone each, which hears the other one 12 dB softer."""
    return transcribed(conversation(), "base")


def test_crosstalk_leaves_no_turns_of_persons_who_are_silent(talk: Heard) -> None:
    words = sum(len(talk.words(person)) for person in range(2))
    assert talk.ghosts(with_removed=True) > 300
    assert talk.ghosts() <= 3 * words / 432
    assert talk.utterances <= 40 * TURNS / 36


def test_crosstalk_costs_no_word_of_ones_own(talk: Heard) -> None:
    before, after = talk.right(1, with_removed=True), talk.right(1)
    assert before > 190
    assert before - after <= 0.01 * before


@pytest.mark.parametrize("planted", [{"echo_s": 0.4}, {"gains_db": (0.0, -8.0)}])
def test_crosstalk_is_found_in_an_echo_and_with_unequal_gains(planted: dict[str, object]) -> None:
    heard = transcribed(conversation(**planted), "base", "en")
    words = sum(len(heard.words(person)) for person in range(2))
    assert heard.ghosts(with_removed=True) > 250
    assert heard.ghosts() <= 3 * words / 432
    before, after = heard.right(1, with_removed=True), heard.right(1)
    assert before - after <= 0.01 * before


def test_the_language_of_one_speaker_is_known_in_five_languages() -> None:
    for language in human.LANGUAGES:
        told = transcribed(alone(human.prompts(language, 3.0, 6.0)[:6]), "base").outcomes[0].language
        assert told is not None
        assert (told.code, told.is_guess) == (language, False)


def late_s(heard: Heard) -> float:
    """How far first words begin from the voice, in 95 % of utterances at most."""
    return float(np.percentile([abs(first.start_s - said.start_s) for said, first, _ in heard.times_s()], 95))


def test_words_begin_with_the_voice(talk: Heard) -> None:
    assert late_s(talk) < 0.08


def test_words_of_readers_are_right_and_begin_with_the_voice() -> None:
    read = transcribed(alone(human.english()), "tiny.en")
    assert late_s(read) < 0.1
    wrong, said = read.errors(0)
    assert wrong <= 0.15 * said
