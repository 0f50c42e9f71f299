"""The language of a transcript: by the tables, or detected, the same on all microphones, and named where guessed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from planted import Ears, as_int16, planted
from storyframes_transcribe.command import _remark_on_languages
from storyframes_transcribe.languages import Language
from storyframes_transcribe.listening import detect_language, voice_windows
from storyframes_transcribe.models import find_model
from storyframes_transcribe.recordings import plan_sessions
from storyframes_transcribe.session import Status, Transcriber
from storyframes_transcribe.voices import RATE, Piece
from storyframes_transcribe.whisper import Whisper
from support.media.recordings import write_wave
from support.messages import missing
from support.studies import make_study
from transcribing import SETTINGS, WORDS, transcribe

from tasks.study import load_study, read_transcript

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

SAID = [word for word, _ in WORDS]
SURE, GUESS = {"en": 0.95}, {"th": 0.35, "zh": 0.3}


def pieces(*voice_s: float) -> list[Piece]:
    """Pieces of a minute, each with so many seconds of voice, whose samples are the number of their piece."""
    made = []
    for number, seconds in enumerate(voice_s):
        samples = np.full(60 * RATE, float(number), np.float32)
        stretches = ((0, round(seconds * RATE)),) if seconds else ()
        made.append(Piece(60.0 * number, samples, stretches, np.array([[0.0, seconds]])))
    return made


def test_the_language_is_the_most_probable_one_of_all_microphones_together() -> None:
    answers: Iterator[Mapping[str, float]] = iter([{"th": 0.5, "zh": 0.45}, {"zh": 0.8}, {"zh": 0.9, "th": 0.1}] * 2)
    found = detect_language([pieces(60.0), pieces(60.0)], lambda _: next(answers))
    assert found is not None
    assert (found.code, found.is_guess) == ("zh", True)
    assert found.probability == pytest.approx(np.mean([0.45, 0.8, 0.9, 0.45]), abs=1e-4)  # two windows of each


def test_listening_ends_where_the_language_is_certain_and_after_90_s() -> None:
    heard: list[int] = []

    def listen(samples: np.ndarray) -> Mapping[str, float]:
        heard.append(len(samples) // RATE)
        return {"en": 0.9 if len(heard) == 2 else 0.72}

    assert detect_language([pieces(0.0, 50.0, 50.0)], listen) == Language("en", 0.81)
    assert heard == [30, 30]
    assert detect_language([pieces(60.0, 60.0, 60.0)], lambda samples: heard.append(0) or GUESS) == Language("th", 0.35)  # type: ignore[func-returns-value]
    assert heard == [30, 30, 0, 0, 0]
    assert detect_language([pieces(0.0)], listen) is None


def test_windows_have_the_voice_alone() -> None:
    windows = list(voice_windows(pieces(20.0, 0.0, 20.0)))
    assert [len(window) / RATE for window in windows] == [30.0, 10.0]
    assert [*np.unique(windows[0])] == [0.0, 2.0]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    root = make_study(tmp_path / "study", audio="a.wav")
    write_wave(root / "a.wav", as_int16(planted(WORDS, 8.0)), RATE)
    return root


def test_a_guess_is_said_and_is_a_caveat(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # also where the transcript is there already
        outcome = transcribe(study, Ears(*SAID, languages=[GUESS]))["s@main"]
        assert outcome.language == Language("th", 0.35)
        _remark_on_languages([outcome])
        assert missing(capsys.readouterr().err.replace("\n", " "), "s:", "th", "0.35", "--language") == []
    path = study / "transcripts/s.json"
    assert read_transcript(path).guessed_language
    assert json.loads(path.read_text())["provenance"]["language_probability"] == 0.35
    path.unlink()
    outcome = transcribe(study, Ears(*SAID, languages=[SURE]))["s@main"]
    _remark_on_languages([outcome])
    assert capsys.readouterr().err == ""
    assert not read_transcript(path).guessed_language


def test_the_tables_decide_the_language(study: Path) -> None:
    ears = Ears(*SAID, *SAID, languages=[GUESS])
    transcribe(study, ears)
    (study / "sessions.csv").write_text("session_id,participant_id,audio,language\ns,p,a.wav,fr-CA\n")
    assert load_study(study).sessions["s"].language == "fr"
    outcome = transcribe(study, ears, language="en")["s@main"]
    assert (outcome.status, outcome.language) == (Status.MADE, Language("fr", 1.0))
    assert ears.heard_in == ["th", "fr"]
    assert not read_transcript(study / "transcripts/s.json").guessed_language
    assert transcribe(study, Ears())["s@main"].status is Status.CURRENT


def test_a_track_may_have_another_language_than_its_session(study: Path) -> None:
    (study / "sessions.csv").write_text("session_id,participant_id,audio,language\ns,p,a.wav,fr\n")
    (study / "persons.csv").write_text("session_id,person_id\ns,kim\ns,lee\n")
    (study / "tracks.csv").write_text("session_id,track,audio,person_id,language\ns,k,a.wav,kim,\ns,l,b.wav,lee,it\n")
    write_wave(study / "b.wav", as_int16(planted(WORDS[:1], 8.0)), RATE)
    ears = Ears(*SAID, SAID[0])
    transcribe(study, ears)
    assert ears.heard_in == ["fr", "it"]


def two_microphones(study: Path) -> None:
    (study / "persons.csv").write_text("session_id,person_id\ns,kim\ns,lee\n")
    (study / "tracks.csv").write_text("session_id,track,audio,person_id\ns,k,k.wav,kim\ns,l,l.wav,lee\n")
    write_wave(study / "k.wav", as_int16(planted(WORDS[:2], 8.0)), RATE)
    write_wave(study / "l.wav", as_int16(planted(WORDS[2:], 8.0)), RATE)


def test_the_microphones_of_a_session_have_one_language(study: Path) -> None:
    two_microphones(study)
    ears = Ears(*SAID, languages=[{"th": 0.5, "zh": 0.4}, {"zh": 0.9}])
    outcomes = transcribe(study, ears)
    assert ears.heard_in == ["zh", "zh"]
    assert {name: one.language for name, one in outcomes.items() if name != "s@main"} == dict.fromkeys(
        ["s@k", "s@l"], Language("zh", 0.65)
    )
    assert read_transcript(study / "transcripts/s.json").guessed_language  # what is joined of guesses is one


def test_a_microphone_in_another_language_is_transcribed_again_when_a_second_one_comes(study: Path) -> None:
    two_microphones(study)
    (study / "transcripts").mkdir()
    ears = Ears(*SAID[:2], *SAID, languages=[{"th": 0.5}, {"th": 0.5, "zh": 0.4}, {"zh": 0.9}])
    first, second = ((study / f"{name}.wav").read_bytes() for name in "kl")
    (study / "l.wav").write_bytes(b"no sound yet")
    transcribe(study, ears)
    assert ears.heard_in == ["th"]
    (study / "l.wav").write_bytes(second)
    assert (study / "k.wav").read_bytes() == first
    outcomes = transcribe(study, ears)
    assert ears.heard_in == ["th", "zh", "zh"]
    assert {outcomes["s@k"].status, outcomes["s@l"].status} == {Status.MADE}


@pytest.mark.slow
def test_a_language_that_the_model_does_not_know_is_an_error(study: Path, whisper: Path) -> None:
    found = find_model(str(whisper))
    loaded = Whisper(found, SETTINGS)
    assert loaded.listen(planted(WORDS, 8.0)) == {"en": 1.0}  # it is a model of English alone
    (study / "sessions.csv").write_text("session_id,participant_id,audio,language\ns,p,a.wav,xx\n")
    tables = load_study(study)
    (plan,) = plan_sessions(tables)
    (outcome,) = Transcriber(tables, SETTINGS, found, loaded.hear, loaded.listen).transcribe(plan)
    assert outcome.status is Status.FAILED
    assert missing(outcome.reason, "xx", "--language") == []
    assert not (study / "transcripts/s.json").exists()
