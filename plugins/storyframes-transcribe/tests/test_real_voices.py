"""A meeting on one microphone, from a folder to a transcript with speakers, by real models and recorded voices."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import as_int16
from storyframes_transcribe.one_microphone.voice_models import load_voice_model
from support.media.recordings import write_wave
from support.voices.human import voice_weights, whisper_model
from support.voices.scenes import RATE
from typer.testing import CliRunner

from benchmarks.extracting.voices import CHECKED, conversation, judged
from flows.cli.app import app
from tasks.study import read_transcript

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs("espeak-ng", "faster_whisper", "real voices")]


def test_one_command_makes_a_transcript_with_speakers(tmp_path: Path) -> None:
    scene, others = conversation(("es", "it-2"), 0)
    root = tmp_path / "study"
    root.mkdir()
    write_wave(root / "meeting.wav", as_int16(scene.room), RATE)
    (root / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,meeting.wav\n")
    (root / "persons.csv").write_text("session_id,person_id,role\ns,ana,teller\ns,gia,\n")
    (tmp_path / "voices.toml").write_text("[voices]\nspeaker_probability = 0.9\n")
    options = [
        f"--voice={name}={write_wave(tmp_path / f'{name}.wav', as_int16(voice), RATE)}"
        for name, voice in zip(("teller", "gia"), others, strict=True)
    ]
    models = ["--model", str(whisper_model("base")), "--voices", str(voice_weights()), "--language", "es"]
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


def test_voices_that_chose_nothing_are_told_apart() -> None:
    every = [one for condition, one in judged(load_voice_model(voice_weights()), CHECKED[:2]) if condition == "clean"]
    assert sum(one.mistaken for one in every) <= 0.02 * sum(one.said for one in every)
    assert sum(one.right for one in every) >= 0.98 * sum(one.named for one in every)
