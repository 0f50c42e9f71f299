"""Texts that were handed in get the times at which espeak-ng says their words; no word of them is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from planted import RATE, as_int16, planted
from storyframes_transcribe.align_command import app
from support.media.recordings import FPS, write_recording, write_streams, write_wave
from support.messages import missing
from support.studies import make_study
from tiny_ctc import FOLDER
from typer.testing import CliRunner, Result

from tasks.study import load_study, read_transcript

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

SAID = [("garden", 0.6), ("yellow", 1.5), ("elephant", 2.6), ("under", 4.0), ("window", 5.1), ("river", 6.3)]
SECONDS = 7.5
MADE = "transcripts/s.aligned.json"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A video whose sound begins 0.4 s after its picture, without a transcript."""
    made = make_study(tmp_path / "study", video="s.mkv")
    sound = as_int16(planted(SAID, SECONDS))[:, None]
    write_recording(made / "s.mkv", 200, sound, RATE, picture_at_s=0.2, sound_at_s=0.6)
    (made / "texts").mkdir()
    return made


def align(study: Path, *options: str) -> Result:
    result = CliRunner().invoke(app, [str(study), "--model", str(FOLDER), *options], env={"COLUMNS": "200"})
    assert not any(word in result.output.lower() for word, _ in SAID), "no word is printed"
    return result


def hand_in(study: Path, text: str) -> None:
    (study / "texts/s.txt").write_text(text, encoding="utf-8")


def starts(transcript: Path) -> dict[str, float]:
    return {word.text: word.start_s for word in read_transcript(transcript).words() if word.timed}


def test_words_begin_where_they_were_planted(study: Path) -> None:
    hand_in(study, "Anna: Garden, yellow elephant!\n\nBen: under\nAnna: window — river.\nBen:\n")
    result = align(study)
    assert result.exit_code == 0, result.output
    found = starts(study / MADE)
    spoken = {"Garden,": 0.6, "yellow": 1.5, "elephant!": 2.6, "under": 4.0, "window": 5.1, "river.": 6.3}
    assert {name: time + 0.4 for name, time in spoken.items()} == pytest.approx(found, abs=0.05)
    utterances = read_transcript(study / MADE).utterances
    assert [one.speaker for one in utterances] == ["Anna", "Ben", "Anna"]
    words = [word for one in utterances for word in one.words]
    assert all(word.confidence > 0.5 for word in words if word.timed)
    assert all(word.timed for word in words)
    assert "—" not in {word.text for word in words}
    assert (study / MADE).stat().st_mode & 0o777 == 0o600
    assert load_study(study).sessions["s"].transcript == MADE
    before = (study / MADE).stat().st_mtime_ns
    assert "there already" in align(study).output
    assert (study / MADE).stat().st_mtime_ns == before


def test_the_sound_that_the_configuration_chooses_is_aligned(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", audio="s.mkv")
    sound = as_int16(planted(SAID, SECONDS))[:, None]
    write_streams(study / "s.mkv", {"eng": 0 * sound, "fra": sound}, pictures=0)
    (study / "texts").mkdir()
    hand_in(study, " ".join(word for word, _ in SAID))
    assert align(study).exit_code == 1
    (tmp_path / "config.toml").write_text("[recording]\nsound_stream = 1\n")
    result = align(study, "--config", str(tmp_path / "config.toml"))
    assert result.exit_code == 0, result.output
    assert dict(SAID) == pytest.approx(starts(study / MADE), abs=0.05)
    assert json.loads((study / MADE).read_text())["provenance"]["sound"]["sound_stream"] == 1


def test_words_before_and_after_the_picture_are_left_out_and_counted(tmp_path: Path) -> None:
    """The sound begins 2.2 s before the first frame, and the picture lasts for 4 s."""
    study = make_study(tmp_path / "study", video="s.mp4")
    sound = as_int16(planted(SAID, SECONDS))[:, None]
    write_recording(study / "s.mp4", 4 * FPS, sound, RATE, picture_at_s=2.2, codec="aac")
    (study / "texts").mkdir()
    hand_in(study, "Anna: garden yellow\nBen: elephant under\nAnna: window river\n")
    (study / "transcripts").mkdir()
    leftover = study / "transcripts/.s.aligned.json.0a1b2c3d.tmp"  # as a writer leaves it that is killed
    leftover.write_text("{}")
    result = align(study)
    assert result.exit_code == 0, result.output
    assert "3 words" in result.output
    assert missing(result.output, "3 before", "recording") == []
    expected = {"elephant": 0.4, "under": 1.8, "window": 2.9}
    assert starts(study / MADE) == pytest.approx(expected, abs=0.05)
    utterances = read_transcript(study / MADE).utterances
    assert [(one.speaker, one.text) for one in utterances] == [("Ben", "elephant under"), ("Anna", "window")]
    assert not leftover.exists()


def test_what_the_model_cannot_spell_lies_between_its_neighbours(study: Path) -> None:
    hand_in(study, "garden yellow 7 under ወንዝ river")
    assert align(study).exit_code == 0
    words = read_transcript(study / MADE).words()
    assert [word.timed for word in words] == [True, True, False, True, False, True]
    assert {word.text: word.start_s for word in words if word.timed} == pytest.approx(
        {"garden": 1.0, "yellow": 1.9, "under": 4.4, "river": 6.7}, abs=0.05
    )
    assert words[1].end_s <= words[2].start_s < words[3].start_s
    assert np.isnan(words[2].confidence)


@pytest.mark.parametrize("text", ["morning yesterday morning yesterday morning", "garden " * 300, "7 8 9"])
def test_a_text_that_does_not_fit_is_refused(study: Path, text: str) -> None:
    hand_in(study, text)
    result = align(study)
    assert result.exit_code == 1
    assert "does not fit the sound" in result.output
    assert not (study / MADE).exists()
    assert load_study(study).sessions["s"].transcript is None


def test_a_text_that_fits_badly_is_written_where_that_is_asked_for(study: Path) -> None:
    hand_in(study, "river window under elephant yellow garden")
    assert align(study).exit_code == 1
    assert align(study, "--min-confidence", "0.1").exit_code == 0
    confidence = [word.confidence for word in read_transcript(study / MADE).words()]
    assert 0.1 < np.mean(confidence) < 0.5


def test_captions_get_the_times_of_their_words_and_stay_as_they_are(tmp_path: Path) -> None:
    study, disk = make_study(tmp_path / "study", audio="s.wav", transcript="s.vtt"), tmp_path / "disk"
    (study / "storyframes.toml").write_text('[recording]\nroot = "../disk"\n')
    disk.mkdir()
    write_wave(disk / "s.wav", as_int16(planted(SAID, SECONDS)), RATE)
    captions = (
        "WEBVTT\n\n00:00.500 --> 00:03.500\ngarden yellow elephant\n\n00:03.900 --> 00:07.000\nunder window river\n"
    )
    (disk / "s.vtt").write_text(captions)
    result = align(study)
    assert result.exit_code == 0, result.output
    assert f"name {MADE} in the place of s.vtt" in result.output
    assert starts(study / MADE) == pytest.approx(dict(SAID), abs=0.05)
    assert json.loads((study / MADE).read_text())["provenance"]["text"]["path"] == "s.vtt"
    assert (disk / "s.vtt").read_text() == captions
    assert load_study(study).sessions["s"].transcript == "s.vtt"


def test_a_file_of_somebody_else_is_not_replaced(study: Path) -> None:
    hand_in(study, " ".join(word for word, _ in SAID))
    assert align(study).exit_code == 0
    content = json.loads((study / MADE).read_text())
    content["utterances"][0]["words"][0]["word"] = "gardens"
    for mine, message in ((content, "was corrected by hand"), ({"utterances": []}, "was not written by")):
        (study / MADE).write_text(json.dumps(mine))
        result = align(study)
        assert result.exit_code == 1
        assert message in result.output
        assert json.loads((study / MADE).read_text()) == mine


def test_without_a_text_it_says_where_one_would_be(study: Path) -> None:
    result = align(study)
    assert result.exit_code == 0
    assert "no STUDY/texts/SESSION.txt" in " ".join(result.output.split())
    assert align(study, "--session", "t").exit_code == 2


def test_a_folder_that_is_no_ctc_model_is_refused(study: Path, tmp_path: Path) -> None:
    hand_in(study, "garden")
    (tmp_path / "empty").mkdir()
    result = align(study, "--model", str(tmp_path / "empty"))
    assert result.exit_code == 2
    assert missing(" ".join(result.output.split()), "config.json", "vocab.json") == []
