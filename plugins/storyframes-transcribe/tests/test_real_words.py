"""Words and their times by real models of Whisper, where they have been fetched (`make voices`)."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
import tokenizers
from faster_whisper import BatchedInferencePipeline, WhisperModel
from faster_whisper.tokenizer import Tokenizer
from storyframes_transcribe.models import find_model
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.whisper import Whisper
from storyframes_transcribe.words import HeardWord, join_pieces, text_of
from support.voices import human

from benchmarks.extracting.transcripts import Heard, alone, planted_words, transcribed
from benchmarks.scaling.transcribing import ours, right, the_pipeline

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs("espeak-ng", "faster_whisper", "real voices")]

TEXTS = {
    "en": "It costs $25.50, and is well-known, isn't it?",
    "fr": "C'est long, qu'il vienne aujourd'hui.",
    "de": "Das E-Mail-Konto hat 3,5 GB.",
    "it": "L'altro giorno dell'anno.",
    "es": "¿Qué hora es? Son las 10:30.",
    "ru": "Кто-то вышел из-за угла.",
    "ko": "오늘 날씨가 좋네요.",
}
UNSPACED = {"zh": "今天天气很好，我们去公园。", "ja": "今日は天気がいいですね。", "th": "วันนี้อากาศดีมาก"}


def words_in(text: str, language: str) -> list[str]:
    """The words of a text, through the pieces into which Whisper's own tokenizer divides it."""
    model = tokenizers.Tokenizer.from_file(str(human.whisper_model("base") / "tokenizer.json"))
    tokenizer = Tokenizer(model, True, task="transcribe", language=language)
    pieces, _ = tokenizer.split_to_word_tokens(tokenizer.encode(text))
    return [word.text for word in join_pieces([HeardWord(piece, 0.0, 1.0, 0.5) for piece in pieces], language)]


@pytest.mark.parametrize("language", TEXTS)
def test_words_of_languages_with_spaces_are_whole(language: str) -> None:
    assert words_in(f" {TEXTS[language]}", language) == TEXTS[language].split()


@pytest.mark.needs("budoux")
@pytest.mark.parametrize("language", UNSPACED)
def test_words_of_languages_without_spaces_are_no_single_signs(language: str) -> None:
    words = words_in(UNSPACED[language], language)
    assert text_of(words) == UNSPACED[language]
    assert 1 < len(words) <= len(UNSPACED[language]) / 1.5
    assert not any(unicodedata.combining(word[0]) for word in words)


def onsets_s(heard: Heard) -> np.ndarray:
    """How late first words begin."""
    return np.array([first.start_s - each.start_s for each, first, _ in heard.times_s()])


def test_first_words_begin_with_the_voice_of_people() -> None:
    heard = transcribed(alone([*human.english(), *human.prompts("en", 1.5, 4.0)[:24]]), "base", "en")
    late = onsets_s(heard)
    assert len(late) >= 34
    assert np.mean(np.abs(late) <= 0.1) >= 0.95


def test_first_words_begin_where_they_were_planted() -> None:
    late = onsets_s(transcribed(planted_words(), "base", "en"))
    assert len(late) == 24
    assert np.abs(late).max() <= 0.08


def test_short_words_are_heard_as_well_as_by_the_batched_pipeline() -> None:
    scene = alone(human.days_and_months("en"))
    folder = str(human.whisper_model("base"))
    by_us = ours(Whisper(find_model(folder), TranscribeSettings(model=folder)), scene.microphones[0])
    pipeline = BatchedInferencePipeline(WhisperModel(folder, compute_type="int8"))
    by_it = the_pipeline(pipeline, scene.microphones[0])
    assert right(scene, 0, by_us) >= right(scene, 0, by_it) >= (17, 19)
