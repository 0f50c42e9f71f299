"""Who says the words that one microphone heard of several people, by planted features ``speaking`` and clocks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from planted import Ears, as_int16, planted
from storyframes_transcribe.models import Model
from storyframes_transcribe.recordings import plan_sessions
from storyframes_transcribe.session import Outcome, Status, Transcriber
from storyframes_transcribe.settings import TranscribeSettings
from storyframes_transcribe.speakers import name_speakers, persons_of_tracks
from storyframes_transcribe.voices import RATE
from support.media.recordings import FPS, write_recording, write_wave
from support.stores import local
from support.studies import extract_session
from tiny_whisper import WORD
from transcribing import named
from typer.testing import CliRunner, Result

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.speaking import SPEC
from tasks.study import ChangedTables, load_study, read_transcript

pytestmark = pytest.mark.needs("espeak-ng", "faster_whisper")

WORDS = [("harmonica", 1.0), ("velvet", 2.5), ("marmalade", 3.5), ("lantern", 6.0)]  # in seconds of the session
KIM, LEE = [(0.9, 2.0), (3.4, 4.3), (5.8, 6.9)], [(2.4, 3.3), (5.8, 6.9)]  # at the last word both may speak
ROOM_S, LEE_S = 0.8, 0.5  # the microphone began so much before the session, and so did Lee's camera
SETTINGS = TranscribeSettings(pause_s=0.6)


def plant(
    store: Path, track: str, spans: list[tuple[float, float]], offset_s: float = 0.0, *caveats: str, mouth: str = "face"
) -> None:
    """The feature ``speaking`` of a track whose clock is ahead of the session's."""
    time = np.arange(0.05, 9.0, 0.1)
    speaks = np.any([(time >= start + offset_s) & (time < end + offset_s) for start, end in spans], axis=0)
    with FeatureWriter(local(store), "s", SPEC, track=track, frames=False) as out:
        out.write("values", np.where(speaks, 0.97, 0.02).astype(np.float32))
        out.write("time", time)
        out.write("valid", np.ones(len(time), np.uint8))
        out.write("evidence", np.zeros((len(time), 4), np.float32))
        out.attributes |= {"clock": [[offset_s], [0.0]], "microphone": track, "is_shared": True, "mouth": mouth}
        out.caveats |= set(caveats)
        out.publish("f", {})


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Two people in one picture without sound, and one microphone for both, with a clock of its own; and a store."""
    root = tmp_path / "study"
    root.mkdir()
    (root / "sessions.csv").write_text("session_id,participant_id,video\ns,p,v.mkv\n")
    (root / "persons.csv").write_text("session_id,person_id,role\ns,kim,teller\ns,lee,\n")
    (root / "tracks.csv").write_text(
        "session_id,track,audio,video,person_id,of,region,clock\n"
        's,k,,,kim,main,"0,0,.5,1",\ns,l,,l.mkv,lee,,,l\ns,room,a.wav,,,,,r\n'
    )
    (root / "clocks.csv").write_text(f"session_id,clock,clock_s,session_s\ns,r,{ROOM_S},0\ns,l,{LEE_S},0\n")
    write_recording(root / "v.mkv", 9 * FPS)
    early = np.zeros(round(ROOM_S * RATE), np.float32)
    write_wave(root / "a.wav", as_int16(np.concatenate([early, planted(WORDS, 8.0)])), RATE)
    create_store(tmp_path / "store")
    plant(tmp_path / "store", "k", KIM)
    plant(tmp_path / "store", "l", LEE, LEE_S)
    return root


def attributed(root: Path, ears: Ears) -> Outcome:
    study = load_study(root)
    transcriber = Transcriber(study, SETTINGS, Model("a model", Path(), "0" * 64), ears.hear, ears.listen)
    (plan,) = plan_sessions(study, tracks=["room"])
    (outcome,) = transcriber.transcribe(plan)
    store = FeatureStore(root.parent / "store")
    return name_speakers(study, store, SETTINGS, outcome)


def all_ears() -> Ears:
    return Ears(*(word for word, _ in WORDS))


def spoken(path: Path) -> list[tuple[str, str]]:
    return [(each.text, each.speaker) for each in read_transcript(path).utterances]


@pytest.mark.slow
def test_each_word_is_its_speaker_s_on_the_session_s_clock_and_nobody_s_where_two_are_as_likely(
    room: Path, demo_study: Path
) -> None:
    path = room / "transcripts/s@room.json"
    outcome = attributed(room, all_ears())
    assert (outcome.status, outcome.words, outcome.attributed, outcome.unheard) == (Status.MADE, 4, 3, 0)
    assert spoken(path) == [("harmonica", "teller"), ("velvet", "lee"), ("marmalade", "teller"), ("lantern", "")]
    starts = [word.start_s for word in read_transcript(path).words()]
    np.testing.assert_allclose(starts, [at + ROOM_S for _, at in WORDS], atol=0.05)  # of the microphone, as before
    content = json.loads(path.read_text())
    assert [one.get("person_id") for one in content["utterances"]] == ["kim", "lee", "kim", None]
    store = FeatureStore(room.parent / "store")
    assert content["provenance"]["speakers"] == {
        "speaking": {"k": store.version("s", "speaking@k"), "l": store.version("s", "speaking@l")},
        "least": 0.8,
        "attributed": 0.75,
    }
    assert path.stat().st_mode & 0o777 == 0o600
    ChangedTables(room).name_transcripts({("s", "room"): "transcripts/s@room.json"})
    vectors = {"vectors": demo_study.parent / "glove.demo.300d.txt", "demo_vectors": True}
    extracted, _ = extract_session(room, room.parent / "store", "glove", glove=vectors)
    assert extracted.attributes("s", "glove@room")["speakers"] == ["teller", "lee", "speaker_3"]  # nobody known
    assert extracted.read("s", "glove@room", array="speaker").tolist() == [0, 1, 0, 2]


def test_nothing_is_done_twice_and_another_speaking_attributes_anew_without_hearing_again(room: Path) -> None:
    path = room / "transcripts/s@room.json"
    attributed(room, all_ears())
    before, ears = path.stat().st_mtime_ns, Ears()
    again = attributed(room, ears)
    assert (again.status, again.attributed, path.stat().st_mtime_ns) == (Status.CURRENT, 3, before)
    words = read_transcript(path).words()
    plant(room.parent / "store", "k", LEE)
    plant(room.parent / "store", "l", [(0.9, 2.0), (5.8, 6.9)], LEE_S)
    assert attributed(room, ears).attributed == 2
    assert spoken(path) == [("harmonica", "lee"), ("velvet", "teller"), ("marmalade", ""), ("lantern", "")]
    assert read_transcript(path).words() == words
    assert ears.calls == 0


def test_a_correction_by_hand_speech_of_anybody_and_turns_of_voices_name_nobody(room: Path) -> None:
    path = room / "transcripts/s@room.json"
    store = room.parent / "store"
    plant(store, "k", KIM, 0.0, Caveat.ANYBODYS_SPEECH)
    plant(store, "l", LEE, LEE_S, Caveat.BY_VOICE)
    outcome = attributed(room, all_ears())
    assert (outcome.status, outcome.attributed, outcome.unheard) == (Status.MADE, 0, 2)
    assert spoken(path) == [("harmonica", ""), ("velvet marmalade", ""), ("lantern", "")]
    corrected = path.read_text().replace("lantern", "Lantern!")
    path.write_text(corrected)
    plant(store, "k", KIM)
    plant(store, "l", LEE, LEE_S)
    outcome = attributed(room, Ears())
    assert (outcome.status, outcome.attributed) == (Status.KEPT, None)
    assert path.read_text() == corrected


def test_the_session_s_own_track_is_its_participant_s_unless_its_picture_has_several_people(room: Path) -> None:
    store = room.parent / "store"
    (room / "clocks.csv").unlink()
    (room / "persons.csv").write_text("session_id,person_id,participant_id\ns,kim,\ns,lee,p\n")
    (room / "tracks.csv").write_text("session_id,track,video,person_id\ns,k,k.mkv,kim\ns,l,l.mkv,\n")
    plant(store, "main", LEE)
    assert persons_of_tracks(load_study(room), FeatureStore(store), "s") == {"k": "kim", "main": "lee"}
    (room / "tracks.csv").write_text('session_id,track,person_id,of,region\ns,k,kim,main,"0,0,.5,1"\n')
    assert persons_of_tracks(load_study(room), FeatureStore(store), "s") == {"k": "kim"}


def test_a_file_that_is_the_sound_of_several_persons_is_transcribed_once_and_nobody_s_microphone(room: Path) -> None:
    (room / "clocks.csv").unlink()
    (room / "sessions.csv").write_text("session_id,participant_id,video,audio\ns,p,v.mkv,a.wav\n")
    (room / "persons.csv").write_text("session_id,person_id,participant_id\ns,kim,p\ns,lee,\n")
    header = "session_id,track,video,audio,person_id\n"
    (room / "tracks.csv").write_text(f"{header}s,l,l.mkv,a.wav,lee\n")
    (plan,) = plan_sessions(load_study(room))
    assert ([(one.track, one.person_id) for one in plan.recordings], plan.joins) == ([("main", None)], False)
    (room / "sessions.csv").write_text("session_id,participant_id,audio\ns,p,own.wav\n")
    (room / "tracks.csv").write_text(f"{header}s,k,,a.wav,kim\ns,l,l.mkv,a.wav,lee\n")
    (plan,) = plan_sessions(load_study(room))
    assert [(one.track, one.person_id) for one in plan.recordings] == [("main", None), ("k", None)]
    assert (plan.microphones, plan.joins) == ((), False)


@pytest.mark.slow
def test_mouths_name_voices_once_and_what_contradicts_them_is_a_doubt(room: Path) -> None:
    store, path = room.parent / "store", room / "transcripts/s@room.json"
    kim, lee = ([(start_s, start_s + 0.9) for start_s in times] for times in ((0.9, 3.4, 5.8), (2.4, 4.6, 7.0)))
    plant(store, "k", kim)
    plant(store, "l", lee, LEE_S)
    turns = room.parent / "turns"
    turns.mkdir()
    lines = [
        f"SPEAKER room 1 {start_s + ROOM_S} {end_s - start_s} <NA> <NA> {speaker} <NA> <NA>\n"
        for speaker, spans in (("A", kim), ("B", lee))
        for start_s, end_s in spans
    ]
    (turns / "s@room.rttm").write_text("".join(lines))
    outcome = named(room, turns, track="room", store=store)
    right = [("harmonica", "teller"), ("velvet", "lee"), ("marmalade", "teller"), ("lantern", "teller")]
    assert (spoken(path), outcome.doubts) == (right, ())
    by = json.loads(path.read_text())["provenance"]["by_voice"]
    assert (by["named"], by["by_mouth"]) == ({"kim": "mouth", "lee": "mouth"}, True)
    before = path.stat().st_mtime_ns
    plant(store, "k", lee)
    plant(store, "l", kim, LEE_S)
    again = named(room, turns, track="room", store=store)
    assert (again.status, path.stat().st_mtime_ns) == (Status.CURRENT, before)  # it may have been made of these names
    contradicted = named(room, turns, "kim=A", track="room", store=store)
    assert spoken(path) == right
    assert any("by mouth, speaker_2 is kim; by hand" in doubt for doubt in contradicted.doubts)
    for track in ("k", "l"):  # speech of a shared microphone that no mouth decided, as of voices
        plant(store, track, kim, mouth="")
    nobody = named(room, turns, track="room", store=store)
    assert {speaker for _, speaker in spoken(path)} == {"speaker_1", "speaker_2"}
    assert len(nobody.doubts) == 2


@pytest.mark.slow
def test_the_command_attributes_transcripts_that_are_there_and_prints_counts_alone(room: Path, whisper: Path) -> None:
    def command(*options: object) -> Result:
        arguments = ("transcribe", room, "--track", "room", "--model", whisper, *options)
        return CliRunner().invoke(app, [str(one) for one in arguments])

    path = room / "transcripts/s@room.json"
    assert command().exit_code == 0
    before = read_transcript(path)
    shown = command("--speakers", room.parent / "store")
    assert shown.exit_code == 0, shown.stderr
    count = re.search(r"s@room: there already, (\d+) words?; (\d+) with a speaker\n", shown.stdout)
    assert count
    after = read_transcript(path)
    assert after.words() == before.words()
    of_each = [each.speaker for each in after.utterances for _ in each.words]
    assert (int(count[1]), int(count[2])) == (len(of_each), sum(map(bool, of_each)))
    assert {"teller", "lee"} >= {*of_each} - {""} != set()
    assert not re.search(WORD, shown.stdout + shown.stderr)
    content = path.read_bytes()
    assert command("--speakers", room.parent / "store").stdout == shown.stdout
    assert command().exit_code == 0  # without the option what is attributed stays
    assert path.read_bytes() == content
    assert "nowhere" in command("--speakers", room.parent / "nowhere").stderr
