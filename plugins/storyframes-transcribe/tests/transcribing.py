"""A study that is transcribed in this process, and when the words of its transcripts begin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from planted import Ears, as_int16, planted
from storyframes_transcribe.models import Model
from storyframes_transcribe.one_microphone.enrolment import Enrolment
from storyframes_transcribe.one_microphone.naming import VoiceNaming
from storyframes_transcribe.one_microphone.settings import VoicesSettings
from storyframes_transcribe.recordings import plan_sessions
from storyframes_transcribe.session import Outcome, Transcriber
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.voices import RATE
from support.media.recordings import write_wave

from storyframes import MAIN, FeatureStore
from tasks.media.container import FIRST_STREAMS, StreamChoice
from tasks.study import load_study, read_transcript

MODEL = Model("a model", Path(), "0" * 64)
SETTINGS = TranscribeSettings(pause_s=0.6)
WORDS = [("harmonica", 1.0), ("velvet", 2.5), ("marmalade", 3.5), ("lantern", 6.0)]
ONSET_S = 0.05  # within which a planted word is to begin


def transcribe(
    root: Path, ears: Ears, model: Model = MODEL, streams: StreamChoice = FIRST_STREAMS, **settings: object
) -> dict[str, Outcome]:
    """What became of each transcript of the study, by session and track."""
    study = load_study(root)
    transcriber = Transcriber(study, SETTINGS.model_copy(update=settings), model, ears.hear, ears.listen, streams)
    outcomes = [outcome for plan in plan_sessions(study) for outcome in transcriber.transcribe(plan)]
    return {f"{outcome.session_id}@{outcome.track}": outcome for outcome in outcomes}


def starts(path: Path) -> list[tuple[str, float]]:
    return [(word.text, word.start_s) for word in read_transcript(path).words()]


def assert_begin(path: Path, words: list[tuple[str, float]]) -> None:
    found = starts(path)
    assert [word for word, _ in found] == [word for word, _ in words]
    np.testing.assert_allclose([at for _, at in found], [at for _, at in words], atol=ONSET_S)


def write_meeting(root: Path) -> Path:
    """A study of one microphone, and nothing about who was there."""
    root.mkdir()
    (root / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,a.wav\n")
    write_wave(root / "a.wav", as_int16(planted(WORDS, 8.0)), RATE)
    return root


def named(root: Path, voices: Path, *enrolments: str, track: str = MAIN, store: Path | None = None) -> Outcome:
    """What became of the only transcript of a track whose speakers are found by a model or by turns."""
    study = load_study(root)
    plans = plan_sessions(study, tracks=[track])
    settings = VoicesSettings(model=str(voices), speaker_probability=0.5)
    opened = FeatureStore(store) if store else None
    sounds = [Enrolment.parse(text) for text in enrolments]
    naming = VoiceNaming(study, plans, SETTINGS, settings, enrolments=sounds, store=opened)
    ears = Ears(*(word for word, _ in WORDS))
    (outcome,) = Transcriber(study, SETTINGS, MODEL, ears.hear, ears.listen).transcribe(plans[0])
    return naming.name(outcome)
