"""Short stretches of voice are read together, and their words found again at their times."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from faster_whisper.transcribe import Segment, Word
from faster_whisper.vad import SpeechTimestampsMap, VadOptions, get_speech_timestamps
from planted import planted
from storyframes_transcribe.voices import RATE, pack, voiced_pieces
from storyframes_transcribe.whisper import words_of

from tasks.media.sound import AudioBlock

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

WORDS = ["harmonica", "velvet", "marmalade", "lantern", "seven", "morning", "elephants", "yesterday"]


def samples(*seconds: tuple[float, float]) -> list[tuple[int, int]]:
    return [(round(first * RATE), round(stop * RATE)) for first, stop in seconds]


def test_consecutive_stretches_share_thirty_seconds() -> None:
    stretches = samples((1, 11), (20, 30), (35, 45), (46, 47), (60, 90), (91, 92))
    assert [len(stretches) for stretches in pack(stretches)] == [3, 1, 1, 1]
    assert [*itertools.chain(*pack(stretches))] == stretches
    assert pack([]) == []


def test_stretches_are_those_of_the_batched_pipeline() -> None:
    times = np.cumsum([0.6, 0.9, 2.5, 0.75, 3.0, 1.0, 1.5, 4.0]).tolist()
    sound = planted([*zip(WORDS, times, strict=True)], times[-1] + 2)
    (piece,) = voiced_pieces([AudioBlock(0.0, sound)], 0.5)
    options = VadOptions(threshold=0.5, min_silence_duration_ms=160, max_speech_duration_s=30)
    theirs = [(one["start"], one["end"]) for one in get_speech_timestamps(sound, options)]
    assert len(piece.stretches) == len(theirs) > 3
    np.testing.assert_allclose(np.array(piece.stretches) / RATE, np.array(theirs) / RATE, atol=0.033)


def test_voice_without_a_pause_is_divided_into_what_the_model_reads() -> None:
    words = [(WORDS[number % len(WORDS)], 0.5 + 0.55 * number) for number in range(120)]
    (piece,) = voiced_pieces([AudioBlock(0.0, planted(words, 68.0))], 0.05)
    assert max(stop - first for first, stop in piece.stretches) <= 30 * RATE
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(piece.stretches))
    covered = sum(stop - first for first, stop in piece.stretches) / RATE
    assert covered == pytest.approx(66.5, abs=1.5)


def test_words_of_packed_stretches_get_their_times_in_the_recording() -> None:
    clips = [{"start": first, "end": stop} for first, stop in samples((2, 3), (7, 9))]
    heard = [Word(0.1, 0.5, " velvet", 0.9), Word(0.9, 1.3, " well", 0.8), Word(1.3, 1.9, "-known", 0.8)]
    segment = Segment(1, 0, 0.1, 1.9, "", [], 0.0, 1.0, 0.0, heard, 0.0)
    words = words_of([segment], "en", SpeechTimestampsMap(clips, RATE, 3), start_s=100.0)
    assert [(word.text, round(word.start_s, 3), round(word.end_s, 3)) for word in words] == [
        ("velvet", 102.1, 102.5),
        ("well-known", 106.9, 107.9),
    ]
