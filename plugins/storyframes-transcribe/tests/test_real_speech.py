"""Real models of Whisper on recordings of people, where they have been fetched (`make voices`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted import as_int16
from storyframes_transcribe.one_microphone.voice_models import load_voice_model
from support.media.recordings import write_wave
from support.studies import run
from support.voices import human
from support.voices.scenes import RATE
from typer.testing import CliRunner

from benchmarks.extracting import voices
from benchmarks.extracting.transcripts import TURNS, Heard, alone, conversation, transcribed
from flows.cli.app import app
from storyframes import FeatureStore
from tasks.planning.selection import Selection
from tasks.study import read_transcript

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


def test_one_command_makes_a_transcript_with_speakers_of_which_speaking_is_made(tmp_path: Path) -> None:
    scene, others = voices.conversation(("es", "it-2"), 0)
    root = tmp_path / "study"
    root.mkdir()
    write_wave(root / "meeting.wav", as_int16(scene.room), RATE)
    (root / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,meeting.wav\n")
    (root / "persons.csv").write_text("session_id,person_id,role\ns,ana,teller\ns,gia,\n")
    tracks = "session_id,track,audio,person_id\ns,a,meeting.wav,ana\ns,g,meeting.wav,gia\n"
    (root / "tracks.csv").write_text(tracks)
    (tmp_path / "voices.toml").write_text("[voices]\nspeaker_probability = 0.9\n")
    options = [
        f"--voice={name}={write_wave(tmp_path / f'{name}.wav', as_int16(voice), RATE)}"
        for name, voice in zip(("teller", "gia"), others, strict=True)
    ]
    models = ["--model", str(human.whisper_model("base")), "--voices", str(human.voice_weights()), "--language", "es"]
    ended = CliRunner().invoke(
        app, ["transcribe", str(root), *models, *options, "--config", str(tmp_path / "voices.toml")]
    )
    assert ended.exit_code == 0, ended.stderr
    named = right = words = 0
    for utterance in read_transcript(root / "transcripts/s.json").utterances:
        for word in utterance.words:
            middle = (word.start_s + word.end_s) / 2
            said = {one.person for one in scene.planted if one.start_s <= middle <= one.end_s}
            if len(said) == 1:
                words += 1
                named += bool(utterance.speaker)
                right += utterance.speaker == ("teller", "gia")[said.pop()]
    assert words > 100
    assert named >= 0.9 * words
    assert right >= 0.97 * named
    run(root, tmp_path / "store", Selection(only=("speaking",)), speaking={"voices": True})
    for track, speaks in zip("ag", voices.true_steps(scene)[:, 5::10], strict=True):
        probability = FeatureStore(tmp_path / "store").read("s", f"speaking@{track}")[: len(speaks)]
        assert np.mean((probability > 0.5) == speaks[: len(probability)]) > 0.93, track


def test_voices_that_chose_nothing_are_told_apart() -> None:
    found = list(voices.judged(load_voice_model(human.voice_weights()), voices.CHECKED[:2]))
    every = [one for condition, one, _ in found if condition == "clean"]
    right, _, calibration_error, _ = voices.speaking_by_condition("clean", found).measures()
    assert right > 0.93
    assert calibration_error < 0.05
    assert sum(one.mistaken for one in every) <= 0.02 * sum(one.said for one in every)
    assert sum(one.named for one in every) >= 0.97 * sum(one.words for one in every)
    assert sum(one.right for one in every) >= 0.99 * sum(one.named for one in every)
    confused = {condition: one.confused / one.alone for condition, one, _ in found}
    assert confused["office, telephone"] < 0.07
    for condition in voices.CONDITIONS:
        assert confused[f"{condition}, all enrolled"] < confused[condition] + 0.005


def test_campplus_tells_voices_apart_from_far_away() -> None:
    found = voices.judged(load_voice_model(human.voice_weights("CAM++")), voices.CHECKED[:2])
    every = [one for condition, one, _ in found if condition.startswith("far away")]
    assert sum(one.mistaken for one in every) <= 0.02 * sum(one.said for one in every)
    assert sum(one.named for one in every) >= 0.95 * sum(one.words for one in every)
    assert sum(one.right for one in every) >= 0.98 * sum(one.named for one in every)
