"""The turns of voices on one microphone: how they are read, and ``speaking`` by them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.media.recordings import write_wave
from support.studies import run

from storyframes.speaking import attribute, read_speech
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Caveat, Status
from tasks.extract import Outcome
from tasks.extractors.speaking import of_person
from tasks.planning.selection import Selection
from tasks.study.transcript import read_transcript
from tasks.study.transcript_formats.drafts import FormatError
from tasks.study.transcript_formats.json_formats import Turn, read_turns

RATE = 8000


def turn(start_s: float, end_s: float, person: str | None, probability: float = 0.98) -> dict[str, object]:
    return {
        "start_s": start_s,
        "end_s": end_s,
        "speaker": person or "speaker_9",
        "person_id": person,
        "probability": probability,
    }


def of(person: str, time_s: list[float], *turns: dict[str, object]) -> list[float]:
    return of_person([Turn.model_validate(one) for one in turns], person, np.array(time_s)).tolist()


def test_a_step_has_the_voice_of_its_turn_or_of_the_next_one() -> None:
    turns = (turn(1, 2, "anna", 0.96), turn(2, 3, "ben", 0.9), turn(5, 6, "cem", 0.92))
    time_s = [0.4, 0.75, 1.05, 2.5, 3.25, 5.5]
    assert of("anna", time_s, *turns) == pytest.approx([1 / 3, 0.96, 0.96, 0.05, 0.05, 0.04])
    assert of("ben", time_s, *turns) == pytest.approx([1 / 3, 0.02, 0.02, 0.9, 0.9, 0.04])
    assert of("anna", [1.5], turn(1, 2, "anna", 1.0), turn(3, 4, "ben", 1.0)) == [0.97]  # no turn is surer


def test_where_two_voices_speak_each_one_s_own_turn_counts_and_of_an_unknown_voice_nothing_is_known() -> None:
    turns = (turn(1, 3, "anna", 0.96), turn(2, 5, "ben", 0.9), turn(4, 6, None))
    np.testing.assert_allclose(of("anna", [1.5, 2.5, 3.5, 4.5], *turns), [0.96, 0.96, 0.05, np.nan])
    np.testing.assert_allclose(of("ben", [1.5, 2.5, 4.5, 5.5], *turns), [0.02, 0.9, 0.9, np.nan])


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"probability": 1.2}, "turn 2, probability 1.2"),
        ({"probability": float("nan")}, "turn 2, probability nan"),
        ({"start_s": -1}, "turn 2, start_s -1"),
        ({"end_s": 0.5}, "end_s is 0.5, before start_s, which is 1.0"),
        ({"end_s": float("inf")}, "turn 2, end_s inf"),
        ({"start_s": None}, "turn 2, start_s"),
        ({"speaker": {"name": "Anna Kowalski"}}, "turn 2, speaker"),
    ],
)
def test_a_malformed_turn_is_named(tmp_path: Path, wrong: dict[str, object], shown: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"utterances": [], "turns": [turn(0, 1, "anna"), turn(1, 2, "ben") | wrong]}))
    with pytest.raises(FormatError) as refused:
        read_turns(path)
    assert shown in str(refused.value)
    assert "Kowalski" not in str(refused.value)


def test_a_document_without_turns_has_none(tmp_path: Path) -> None:
    for name, text in (("a.json", '{"utterances": []}'), ("b.json", "[]"), ("c.vtt", "WEBVTT\n")):
        (tmp_path / name).write_text(text)
        assert read_turns(tmp_path / name).turns == []
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(FormatError, match="not JSON"):
        read_turns(tmp_path / "a.json")


@pytest.mark.parametrize(("speakers", "expected"), [(None, True), ({"least": 0.8}, False)])
def test_doubts_about_voices_are_the_transcript_s_unless_it_was_attributed_otherwise(
    tmp_path: Path, speakers: object, expected: bool
) -> None:
    made = {"made_by": "storyframes-transcribe 0.2", "by_voice": {"doubts": ["hard to tell apart"]}}
    said = [{"speaker": "anna", "start_s": 0, "end_s": 1, "text": "yes"}]
    (tmp_path / "t.json").write_text(json.dumps({"provenance": made | {"speakers": speakers}, "utterances": said}))
    assert read_transcript(tmp_path / "t.json").doubtful_voices is expected


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    """One recorder, which began at second 3 of the session; two persons speak in turn, each twice for a second.

    The session's own sound is another one, from second 0 on.
    """
    study = tmp_path / "study"
    study.mkdir()
    loud = np.tile(np.repeat([20, 6000], RATE), 4)
    write_wave(study / "room.wav", np.zeros(11 * RATE), RATE)
    write_wave(study / "a.wav", np.random.default_rng(0).normal(0, 1, 8 * RATE) * loud, RATE)
    turns = [turn(at, at + 1, person) for at, person in ((1, "anna"), (3, "ben"), (5, "anna"), (7, "ben"))]
    write(study, turns=turns)
    tables = {
        "sessions": "session_id,participant_id,audio\ns,p,room.wav\n",
        "persons": "session_id,person_id,participant_id\ns,anna,p\ns,ben,\ns,cem,\n",
        "tracks": "session_id,track,audio,transcript,person_id,clock\n"
        "s,anna,a.wav,,anna,late\ns,ben,a.wav,t.json,ben,late\ns,cem,a.wav,,cem,late\n",
        "clocks": "session_id,clock,clock_s,session_s\ns,late,0,3\n",
    }
    for name, text in tables.items():
        (study / f"{name}.csv").write_text(text)
    return study


def write(study: Path, **content: object) -> None:
    (study / "t.json").write_text(json.dumps({"utterances": []} | content))


def extracted(study: Path, *, voices: bool = True) -> tuple[FeatureStore, dict[str, Outcome]]:
    outcomes = run(study, study.parent / "f", Selection(only=("speaking",)), speaking={"voices": voices})
    return FeatureStore(study.parent / "f"), {name.removeprefix("s/speaking"): one for name, one in outcomes.items()}


@pytest.mark.slow
def test_on_one_microphone_each_person_speaks_in_her_turns_on_the_session_s_clock(meeting: Path) -> None:
    assert extracted(meeting, voices=False)[1]["@anna"].status is Status.MISSING
    store, outcomes = extracted(meeting)
    assert {Caveat.BY_VOICE, Caveat.ANYBODYS_SPEECH} & {*outcomes["@anna"].caveats} == {Caveat.BY_VOICE}
    anna, ben = (store.read("s", f"speaking@{name}") for name in ("anna", "ben"))
    speaks = np.repeat([0, 1, 0, 2, 0, 1, 0, 2], 10)
    assert ((anna > 0.5) == (speaks == 1)).mean() > 0.92
    assert ((ben > 0.5) == (speaks == 2)).mean() > 0.92
    assert (outcomes["@cem"].status, "t.json" in outcomes["@cem"].reason) == (Status.MISSING, True)
    assert "--voice" in outcomes["@cem"].reason
    words = attribute([4.2, 6.2, 7.2], [4.6, 6.6, 7.6], read_speech(store, "s"))
    assert [word.track for word in words] == ["anna", "ben", None]
    own = store.read("s", "speaking")  # of the participant, anna, on the session's clock
    np.testing.assert_allclose(own[30 : 30 + len(anna)], anna, atol=0.05)


@pytest.mark.slow
def test_only_where_they_are_asked_for_turns_decide_and_renaming_a_voice_extracts_again(meeting: Path) -> None:
    extracted(meeting)
    assert extracted(meeting)[1]["@anna"].skipped
    before = extracted(meeting, voices=False)[1][""]
    write(meeting, turns=[turn(1, 2, "ben"), turn(3, 4, None)], provenance={"by_voice": {"doubts": ["which voice"]}})
    assert {Caveat.BY_VOICE, Caveat.ANYBODYS_SPEECH} & {*before.caveats} == {Caveat.ANYBODYS_SPEECH}
    assert extracted(meeting, voices=False)[1][""].skipped
    store, outcomes = extracted(meeting)
    assert outcomes["@anna"].status is Status.MISSING
    assert {Caveat.BY_VOICE, Caveat.DOUBTFUL_VOICES} <= {*outcomes["@ben"].caveats}
    ben = store.read("s", "speaking@ben")
    assert ben[12:18].min() > 0.9
    assert np.isnan(ben[30:40]).all()
    write(meeting, turns=[turn(1, 2, "ben", 2.0)])
    assert "t.json: turn 1, probability 2.0" in extracted(meeting)[1]["@ben"].reason
    for turns in ({}, {"turns": []}):
        write(meeting, **turns)
        assert "storyframes transcribe STUDY --voices" in extracted(meeting)[1]["@ben"].reason
    (meeting / "tracks.csv").write_text((meeting / "tracks.csv").read_text().replace("t.json", ""))
    assert "storyframes transcribe STUDY --voices" in extracted(meeting)[1]["@ben"].reason


def test_mouths_and_voices_together_are_refused(meeting: Path) -> None:
    with pytest.raises(ValueError, match="'mouth' and 'voices'"):
        run(meeting, meeting.parent / "f", speaking={"voices": True, "mouth": "openface"})
