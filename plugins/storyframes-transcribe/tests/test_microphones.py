"""Several microphones: each word once, at the right speaker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted import Ears, as_int16, planted
from storyframes_transcribe.models import Model
from storyframes_transcribe.recordings import plan_sessions
from storyframes_transcribe.session import Status, Transcriber
from storyframes_transcribe.voices import RATE
from support.media.recordings import FPS, write_recording, write_wave
from support.messages import missing
from support.studies import extract_session, make_study
from transcribing import MODEL, SETTINGS, WORDS, assert_begin, transcribe

from tasks.extractors.source import Input
from tasks.planning.sources import session_microphones
from tasks.study import ChangedTables, load_study, read_transcript

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

TOLD = [("harmonica", 1.5), ("velvet", 4.5), ("lantern", 7.0)]  # by Kim, in seconds of the session
ANSWERED = [("marmalade", 3.0), ("yes", 6.0), ("harmonica", 8.5)]  # by Lee
OFFSET_S = 0.8  # Lee's microphone began so much earlier


@pytest.fixture
def microphones(tmp_path: Path) -> Path:
    """Two people with a lapel microphone each, which hear the other one as well, 14 dB softer."""
    root = tmp_path / "study"
    root.mkdir()
    (root / "sessions.csv").write_text("session_id,participant_id,video\ns,p,v.mkv\n")
    (root / "persons.csv").write_text("session_id,person_id,role\ns,kim,teller\ns,lee,\n")
    (root / "tracks.csv").write_text(
        "session_id,track,audio,person_id,clock,note\ns,lapel_a,a.wav,kim,,dear\ns,lapel_b,b.wav,lee,b,\n"
    )
    (root / "clocks.csv").write_text(f"session_id,clock,clock_s,session_s\ns,b,{OFFSET_S},0\n")
    write_recording(root / "v.mkv", 10 * FPS)
    kim, lee = planted(TOLD, 10.0), planted(ANSWERED, 10.0, "en-gb+f3")
    write_wave(root / "a.wav", as_int16(kim + 0.2 * lee), RATE)
    late = np.zeros(round(OFFSET_S * RATE), np.float32)
    write_wave(root / "b.wav", as_int16(np.concatenate([late, lee + 0.2 * kim])), RATE)
    return root


def in_order() -> list[str]:
    return [word for word, _ in sorted([*TOLD, *ANSWERED], key=lambda pair: pair[1])]


def test_two_lapel_microphones_with_crosstalk_give_each_word_once_at_the_right_speaker(
    microphones: Path, demo_study: Path
) -> None:
    outcomes = transcribe(microphones, Ears(*in_order(), *in_order()))
    assert {name: (one.status, one.words, one.crosstalk, one.uncertain) for name, one in outcomes.items()} == {
        "s@lapel_a": (Status.MADE, 3, 3, 0),
        "s@lapel_b": (Status.MADE, 3, 3, 0),
        "s@main": (Status.MADE, 6, 0, 0),
    }
    assert outcomes["s@main"].joined == 2
    folder = microphones / "transcripts"
    assert_begin(folder / "s@lapel_a.json", TOLD)
    assert_begin(folder / "s@lapel_b.json", [(word, at + OFFSET_S) for word, at in ANSWERED])  # of its own clock
    assert_begin(folder / "s.json", sorted([*TOLD, *ANSWERED], key=lambda pair: pair[1]))
    spoken = {utterance.text: utterance.speaker for utterance in read_transcript(folder / "s.json").utterances}
    assert spoken["velvet"] == "teller"
    assert spoken["marmalade"] == "lee"
    ChangedTables(microphones).name_transcripts({("s", "main"): "transcripts/s.json"})
    vectors = {"vectors": demo_study.parent / "glove.demo.300d.txt", "demo_vectors": True}
    store, _ = extract_session(microphones, microphones.parent / "store", "frames", "glove", glove=vectors)
    assert store.attributes("s", "glove")["speakers"] == ["teller", "lee"]
    assert store.read("s", "glove", array="speaker").tolist() == [0, 1, 0, 1, 0, 1]
    assert set(store.read("s", "glove", array="confidence").tolist()) == {0.75}
    ears = Ears()
    assert {one.status for one in transcribe(microphones, ears).values()} == {Status.CURRENT}
    assert ears.calls == 0


def test_a_corrected_clock_finds_crosstalk_anew_without_hearing_again(microphones: Path) -> None:
    clocks = microphones / "clocks.csv"
    right = clocks.read_text()
    clocks.write_text(right.replace(f"{OFFSET_S}", "0"))
    outcomes = transcribe(microphones, Ears(*in_order(), *in_order()))
    assert outcomes["s@lapel_a"].crosstalk == 0
    clocks.write_text(right)
    ears = Ears()
    assert transcribe(microphones, ears)["s@lapel_a"].crosstalk == 3
    assert ears.calls == 0
    assert_begin(microphones / "transcripts/s@lapel_a.json", TOLD)


def test_the_same_word_as_loud_on_both_is_kept_and_counted(microphones: Path) -> None:
    both = as_int16(planted([("velvet", 2.0)], 5.0))
    write_wave(microphones / "a.wav", both, RATE)
    write_wave(microphones / "b.wav", np.concatenate([np.zeros(round(OFFSET_S * RATE), np.int16), both]), RATE)
    outcomes = transcribe(microphones, Ears("velvet", "Velvet,"))
    assert (outcomes["s@lapel_a"].crosstalk, outcomes["s@lapel_a"].uncertain, outcomes["s@main"].words) == (0, 1, 2)


def test_a_microphone_without_a_transcript_of_ours_is_named_where_nothing_is_joined(microphones: Path) -> None:
    study = load_study(microphones)
    transcriber = Transcriber(study, SETTINGS, MODEL, (ears := Ears(*in_order())).hear, ears.listen)
    (plan,) = plan_sessions(study, tracks=["lapel_a"])
    outcomes = {one.track: one for one in transcriber.transcribe(plan)}
    assert outcomes["main"].status is Status.NOT_JOINED
    assert missing(outcomes["main"].reason, "lapel_b", "transcript") == []
    (microphones / "own.json").write_text('{"utterances": []}')
    ChangedTables(microphones).name_transcripts({("s", "lapel_b"): "own.json"})
    outcomes = transcribe(microphones, Ears())
    assert outcomes["s@lapel_b"].status is Status.KEPT
    assert outcomes["s@main"].status is Status.NOT_JOINED
    assert missing(outcomes["s@main"].reason, "lapel_b", "transcript") == []


def test_crosstalk_is_removed_also_where_a_neighbours_transcript_was_corrected_by_hand(microphones: Path) -> None:
    transcribe(microphones, Ears(*in_order(), *in_order()))
    path = microphones / "transcripts/s@lapel_a.json"
    corrected = path.read_text().replace('"lantern"', '"lantern!"')
    path.write_text(corrected)
    joined = (microphones / "transcripts/s.json").read_text()
    outcomes = transcribe(microphones, Ears(*in_order()), Model("b", Path(), "1" * 64))
    assert {name: (one.status, one.words, one.crosstalk) for name, one in outcomes.items()} == {
        "s@lapel_a": (Status.KEPT, 0, 0),
        "s@lapel_b": (Status.MADE, 3, 3),
        "s@main": (Status.NOT_JOINED, 0, 0),
    }
    assert_begin(microphones / "transcripts/s@lapel_b.json", [(word, at + OFFSET_S) for word, at in ANSWERED])
    assert path.read_text() == corrected
    assert (microphones / "transcripts/s.json").read_text() == joined


def test_cameras_of_persons_without_sound_are_no_microphones(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", audio="a.wav")
    write_wave(root / "a.wav", as_int16(planted(WORDS, 8.0)), RATE)
    (root / "persons.csv").write_text("session_id,person_id\ns,kim\ns,lee\n")
    (root / "tracks.csv").write_text("session_id,track,video,person_id\ns,k,k.mkv,kim\ns,l,l.mkv,lee\n")
    write_recording(root / "k.mkv", FPS)
    write_recording(root / "l.mkv", FPS)
    outcomes = transcribe(root, Ears(*(word for word, _ in WORDS)))
    assert {name: (one.status, one.words) for name, one in outcomes.items()} == {"s@main": (Status.MADE, 4)}


def test_regions_of_a_picture_are_no_microphones(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", video="v.mkv")
    (root / "persons.csv").write_text("session_id,person_id\ns,kim\ns,lee\n")
    (root / "tracks.csv").write_text(
        'session_id,track,person_id,of,region\ns,k,kim,,"0,0,.5,1"\ns,l,lee,,".5,0,.5,1"\n'
    )
    (plan,) = plan_sessions(load_study(root))
    assert [one.track for one in plan.recordings] == ["main"]
    assert (plan.microphones, plan.joins) == ((), False)


def test_copies_of_one_recording_are_one_microphone_for_several_persons(tmp_path: Path) -> None:
    root = make_study(tmp_path / "study", audio="a.wav")
    for name in ("a", "k", "l", "m"):
        write_wave(root / f"{name}.wav", as_int16(planted(WORDS[: 1 + "aklm".index(name) // 3], 8.0)), RATE)
    (root / "persons.csv").write_text("session_id,person_id\ns,kim\ns,lee\ns,mia\n")
    (root / "tracks.csv").write_text("session_id,track,audio,person_id\ns,k,k.wav,kim\ns,l,l.wav,lee\ns,m,m.wav,mia\n")
    (plan,) = plan_sessions(load_study(root))
    assert [(one.track, one.speaker) for one in plan.recordings] == [("main", None), ("m", "mia")]
    assert (plan.microphones, plan.joins) == ((), False)


def test_turns_are_of_the_transcript_whose_seconds_are_those_of_the_track(tmp_path: Path) -> None:
    """A video's own sound counts from its first frame, the same file as ``audio`` from its first sample."""
    root = make_study(tmp_path / "study", video="v.mkv", transcript="v.json")
    (root / "persons.csv").write_text("session_id,person_id\ns,kim\ns,lee\n")
    (root / "tracks.csv").write_text("session_id,track,audio,person_id\ns,k,v.mkv,kim\ns,l,v.mkv,lee\n")
    (plan,) = plan_sessions(load_study(root))
    assert "k" in [one.track for one in plan.recordings]
    assert Input.TURNS not in session_microphones(load_study(root), "s", "l")[0]
    ChangedTables(root).name_transcripts({("s", "k"): "k.json"})
    assert session_microphones(load_study(root), "s", "l")[0][Input.TURNS] == "k.json"
