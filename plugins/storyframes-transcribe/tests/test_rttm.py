"""Who speaks on one microphone by turns that another program wrote in the format RTTM, and by whose mouths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from storyframes_transcribe.one_microphone.enrolment import VoiceError
from storyframes_transcribe.one_microphone.mouths import match_mouths
from storyframes_transcribe.one_microphone.naming import VoiceNaming
from storyframes_transcribe.one_microphone.rttm import Rttm, RttmError, find_rttm
from storyframes_transcribe.one_microphone.settings import VoicesSettings
from storyframes_transcribe.one_microphone.turns import Turns
from storyframes_transcribe.recordings import plan_sessions
from storyframes_transcribe.session import Status
from storyframes_transcribe.transcript_file import read_made
from transcribing import SETTINGS, named, write_meeting

from storyframes import Clock
from tasks.study import load_study, read_transcript

pytestmark = pytest.mark.needs("faster_whisper")

WRITTEN = """\
SPEAKER meeting 1 0.900 1.100 <NA> <NA> SPEAKER_00 <NA> <NA>
SPEAKER meeting 1 2.400 1.950 <NA> <NA> SPEAKER_01 <NA> <NA>
SPEAKER meeting 1 5.800 1.200 <NA> <NA> SPEAKER_00 <NA> <NA>
SPEAKER meeting 1 5.800 1.200 <NA> <NA> SPEAKER_01 <NA> <NA>
"""
"""As pyannote.core 6.1 writes two speakers, who speak together at last."""


def written(folder: Path, content: str = WRITTEN, name: str = "s.rttm") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    return folder / name


def test_words_are_those_of_whose_turn_they_are_alone_in(tmp_path: Path) -> None:
    rttm = Rttm.read(written(tmp_path))
    turns = rttm.turns(0.5, 8.0)  # the sound begins after the picture
    assert rttm.speakers == ("SPEAKER_00", "SPEAKER_01")
    np.testing.assert_allclose([turns.start_s, turns.end_s], [[1.4, 2.9, 6.3], [2.5, 4.85, 7.5]])
    spans = [(1.5, 2.0), (3.0, 3.5), (4.8, 5.3), (6.4, 7.0), (6.2, 6.4), (5.3, 5.8)]
    assert turns.of_spans(spans, 0.9) == [0, 1, 1, None, None, None]
    assert turns.are_doubtful(spans) == [False, False, False, True, True, False]
    assert turns.share_inside(spans[:4]) == pytest.approx(1.65 / 2.1)


def test_what_is_no_turn_is_left_out_and_a_confidence_is_the_probability(tmp_path: Path) -> None:
    content = (
        ";; by hand\n\nSPKR-INFO m 1 <NA> <NA> <NA> unknown anna <NA> <NA>\n"
        "SPEAKER m 1 3 2 <NA> <NA> ben 0.7\r\nSPEAKER m 1   0 2 <NA> <NA> anna 0.95 <NA>\n"
        "LEXEME m 1 0.1 0.2 hello lex anna 0.5 <NA>\nSPEAKER m 1 2 0 <NA> <NA> ben 1 <NA>\n"
    )
    rttm = Rttm.read(written(tmp_path, content))
    turns = rttm.turns(0.0, 4.5)
    assert rttm.speakers == ("anna", "ben")
    assert turns.probability.tolist() == [[0.95, 0.0], [0.0, 0.7]]
    assert turns.of_spans([(0.5, 1.0), (3.5, 4.0)], 0.9) == [0, None]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("SPEAKER m 1 0.9 1.1 <NA> <NA> anna b <NA> <NA>", "line 2: has 11 fields"),
        ("SPEAKER m 1 0,9 1.1 <NA> <NA> anna <NA> <NA>", "line 2: the start is '0,9'"),
        ("SPEAKER m 1 1_0 1.1 <NA> <NA> anna <NA> <NA>", "line 2: the start is '1_0'"),
        ("SPEAKER m 1 0.9 -1 <NA> <NA> anna <NA> <NA>", "line 2: the duration is '-1'"),
        ("SPEAKER m 1 0.9 inf <NA> <NA> anna <NA> <NA>", "line 2: the duration is 'inf'"),
        ("SPEAKER m 1 0.9 1.1 <NA> <NA> anna 93 <NA>", "line 2: the confidence is '93'"),
        ("SPEAKER m 1 0.9 1.1 <NA> <NA> <NA> <NA> <NA>", "line 2: the speaker"),
        ("speaker m 1 0.9 1.1 <NA> <NA> anna <NA> <NA>", "line 2: 'speaker'"),
        ("SPEAKER n 1 0.9 1.1 <NA> <NA> anna <NA> <NA>", "m, n"),
    ],
)
def test_a_line_that_is_wrong_is_refused_by_its_number(tmp_path: Path, line: str, wrong: str) -> None:
    path = written(tmp_path, f"SPEAKER m 1 0 1 <NA> <NA> anna <NA> <NA>\n{line}\n")
    with pytest.raises(RttmError, match=wrong) as error:
        Rttm.read(path)
    assert str(path) in str(error.value)


def test_another_recording_s_turns_and_files_that_are_missing_or_too_large_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "turns")
    with pytest.raises(RttmError, match=r"s.rttm, line 3: ends at 7.000 s, .* 5.500 s long"):
        Rttm.read(path).turns(0.0, 5.5)
    assert find_rttm(path.parent, ["s"]).keys() == find_rttm(path, ["s"]).keys() == {"s"}
    assert find_rttm(tmp_path / "model.pt", ["s"]) is None
    for voices, wrong in ((path.parent, "t@room.rttm"), (path, "s, t@room")):
        with pytest.raises(RttmError, match=wrong):
            find_rttm(voices, ["s", "t@room"])
    for content, wrong in (("", "no turns"), ("\n" * (17 << 20), "16 MB")):
        with pytest.raises(RttmError, match=wrong):
            Rttm.read(written(tmp_path, content))
    many = "".join(f"SPEAKER m 1 {n} 1 <NA> <NA> p{n} <NA> <NA>\n" for n in range(51))
    with pytest.raises(RttmError, match="51 speakers"):
        Rttm.read(written(tmp_path, many))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RttmError, match="UTF-8"):
        Rttm.read(path)


def test_turns_of_another_session_of_the_study_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "study"
    root.mkdir()
    (root / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,a/x.wav\nt,q,y.wav\nu,r,b/x.wav\n")
    study = load_study(root)

    def naming(name: str, recording: str) -> VoiceNaming:
        path = written(tmp_path, WRITTEN.replace("meeting", recording), name)
        return VoiceNaming(study, plan_sessions(study, ["s"]), SETTINGS, VoicesSettings(model=str(path)))

    for name, recording in (("s.rttm", "s"), ("s.rttm", "x"), ("mine.rttm", "tape-3")):
        assert naming(name, recording).has_recordings
    for name, recording in (("s.rttm", "t"), ("s.rttm", "y"), ("t.rttm", "tape-3")):
        with pytest.raises(RttmError, match=rf"{name}.* of session t, and not of s"):
            naming(name, recording)


def speech(is_speaking: np.ndarray, seed: int = 0) -> np.ndarray:
    """What a mouth shows, 2 s late, with noise that is alike for a second: log-odds of -1.5 or 1."""
    noise = np.repeat(np.random.default_rng(seed).normal(0, 1, len(is_speaking) // 10 + 1), 10)[: len(is_speaking)]
    odds = np.where(is_speaking, 1.0, -1.5) + noise
    return np.stack([2.0 + (np.arange(len(odds)) + 0.5) * 0.1, 1 / (1 + np.exp(-odds))], axis=1)


def matched(owners: list[int], persons: list[str], speech: dict[str, np.ndarray]) -> dict[int, str]:
    """By voice the person, of turns of 2.5 s whose voices are ``owners``, on a clock that is 2 s early."""
    start_s, count = np.arange(len(owners)) * 2.5, max(owners) + 1
    turns = Turns(
        start_s, start_s + 2.5, np.eye(count)[owners], np.zeros((count, 0)), np.zeros(len(owners), bool), True
    )
    return match_mouths(turns, Clock("room", (0.0,), (2.0,)), speech, persons)


def test_mouths_that_agree_with_a_voice_name_it_also_where_one_is_not_seen() -> None:
    owners = [0, 1, 2] * 12
    speaks = [np.repeat(np.array(owners) == voice, 25) for voice in range(3)]
    kim, lee, pat = (speech(is_speaking, seed) for seed, is_speaking in enumerate(speaks))
    everybody = ["pat", "lee", "kim"]
    assert matched(owners, everybody, {"kim": kim, "lee": lee, "pat": pat}) == {0: "kim", 1: "lee", 2: "pat"}
    assert matched(owners, everybody, {"kim": kim, "pat": pat}) == {0: "kim", 2: "pat"}
    assert matched(owners, everybody, {}) == {}
    unseen = np.where((kim[:, :1] < 85) & [False, True], np.nan, kim)
    assert matched(owners, everybody, {"kim": unseen}) == {}


def test_mouths_that_move_at_other_times_name_nobody() -> None:
    owners = [0, 1] * 10
    kim = np.repeat(np.array(owners) == 0, 25)
    nods = {"kim": speech(kim, 0), "lee": speech(kim, 1)}  # lee's mouth moves while kim speaks
    assert matched(owners, ["kim", "lee"], nods) == {}
    for seed in range(30):
        chews = np.repeat(np.random.default_rng(seed).random(20) < 0.5, 25)  # anybody's mouth, in times of its own
        assert matched(owners, ["kim", "lee"], {"kim": speech(np.roll(chews, seed), seed)}) == {}


@pytest.mark.slow
@pytest.mark.needs("espeak-ng")
def test_a_transcript_gets_the_speakers_of_a_file_of_turns(tmp_path: Path) -> None:
    meeting, turns = write_meeting(tmp_path / "study"), written(tmp_path / "turns").parent
    path = meeting / "transcripts/s.json"

    def spoken() -> list[tuple[str, str]]:
        return [(one.text, one.speaker) for one in read_transcript(path).utterances]

    outcome = named(meeting, turns)
    assert (outcome.status, outcome.attributed, outcome.doubts) == (Status.MADE, 3, ())
    assert spoken() == [("harmonica", "SPEAKER_00"), ("velvet marmalade", "SPEAKER_01"), ("lantern", "")]
    assert [word.is_uncertain for word in read_made(path).words] == [False, False, False, True]
    (meeting / "persons.csv").write_text("session_id,person_id,role\ns,kim,teller\ns,lee,\n")
    for text, wrong in (("kim=SPEAKER_7", "SPEAKER_7.*SPEAKER_00, SPEAKER_01$"), (f"kim={path}", "SPEAKER_00")):
        with pytest.raises(VoiceError, match=wrong):
            named(meeting, turns, text)
    assert outcome.unnamed == ("SPEAKER_00", "SPEAKER_01")
    assert named(meeting, turns, "teller=SPEAKER_01").unnamed == ()
    assert [speaker for _, speaker in spoken()] == ["lee", "teller", ""]
    by = json.loads(path.read_text())["provenance"]["by_voice"]
    assert (by["model"].keys(), by["model"]["name"]) == ({"name", "sha256"}, "rttm")
    assert (by["by_hand"], by["named"]) == ({"kim": 2}, {"kim": "hand", "lee": "left over"})
    written(turns, WRITTEN.replace("SPEAKER_01", "teller"))
    named(meeting, turns)
    assert [speaker for _, speaker in spoken()] == ["lee", "teller", ""]
    assert json.loads(path.read_text())["provenance"]["by_voice"]["named"] == {"kim": "file", "lee": "left over"}
    written(turns, WRITTEN.replace(" 2.400", " 4.400") + WRITTEN.replace("_0", "_1").replace(" 2.400", " 4.400"))
    crowded, outside = named(meeting, turns).doubts
    assert ("4 speakers" in crowded, "s.rttm" in outside) == (True, True)
    written(turns, WRITTEN.replace(" 5.800", " 65.800"))
    outcome = named(meeting, turns)
    assert (outcome.status, "line 3: ends at 67.000 s" in outcome.reason) == (Status.FAILED, True)


@pytest.mark.slow
@pytest.mark.needs("espeak-ng")
def test_a_voice_is_called_as_in_its_file_and_never_as_a_person(tmp_path: Path) -> None:
    meeting, turns = write_meeting(tmp_path / "study"), tmp_path / "turns"
    persons, path = meeting / "persons.csv", meeting / "transcripts/s.json"
    persons.write_text("session_id,person_id,role,participant_id\ns,kim,teller,p\ns,lee,,\n")

    def speakers(*enrolments: str) -> list[str]:
        named(meeting, turns, *enrolments)
        return [one.speaker for one in read_transcript(path).utterances]

    written(turns, WRITTEN.replace("SPEAKER_00", "speaker_1").replace("SPEAKER_01", "speaker_0"))
    assert speakers() == ["speaker_1", "speaker_0", ""]
    assert speakers("kim=speaker_1") == ["teller", "lee", ""]
    persons.write_text("session_id,person_id,role,participant_id\ns,kim,listener,p\ns,lee,teller,\n")
    assert speakers("kim=speaker_1") == ["listener", "teller", ""]  # who plays which role was corrected
    written(turns, WRITTEN.replace("SPEAKER_00", "p").replace("SPEAKER_01", "Anna"))
    assert speakers() == ["listener", "teller", ""]
    persons.write_text("session_id,person_id,role,participant_id\ns,kim,listener,\ns,lee,teller,p\n")
    assert speakers() == ["teller", "listener", ""]
    persons.write_text("session_id,person_id\ns,speaker_1\ns,speaker_2\n")
    assert speakers() == ["speaker_3", "speaker_4", ""]
    assert speakers("speaker_1=Anna") == ["speaker_2", "speaker_1", ""]
