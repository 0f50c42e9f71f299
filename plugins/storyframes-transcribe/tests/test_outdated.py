"""``check`` names transcripts that earlier rules made, and how to make them again; withdrawal finds those made here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from storyframes_transcribe.outdated import find_outdated
from storyframes_transcribe.transcript_file import (
    MADE_BY,
    RULES,
    ByVoice,
    Provenance,
    TranscriptFile,
    Turn,
    Utterance,
    Word,
    find_forgotten,
    read_made,
    write,
)
from support.messages import missing

from tasks.forgetting import Asked
from tasks.forgetting.scope import Scope
from tasks.study import load_study, read_transcript
from tasks.study.forgotten_ids import ForgottenIds

# Like all tests of the plug-in, which the short tier leaves out: it cannot be imported without.
pytestmark = pytest.mark.needs("faster_whisper")

OF_RULES_1 = """{
 "provenance": {
  "made_by": "storyframes-transcribe 0.1.0", "model": {"name": "large-v3", "sha256": "0"}, "language": "en",
  "words_sha256": "DIGEST"
 },
 "utterances": [{"speaker": "teller", "start_s": 0.5, "end_s": 1.5, "text": "It is well -known", "words": [
  {"word": "well", "start_s": 0.5, "end_s": 1.0, "confidence": 0.9, "level_db": -20.0},
  {"word": "-known", "start_s": 1.0, "end_s": 1.5, "confidence": 0.8, "level_db": -20.0}
 ]}]
}
"""
DIGEST = "13cc420b9c07413beaf46dfea5c106b2dbf46092db0728fe0dca2eb4f31f47de"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rows = "".join(f"s{number},p{number},{number}.wav\n" for number in "12345")
    (tmp_path / "sessions.csv").write_text(f"session_id,participant_id,audio\n{rows}")
    (tmp_path / "transcripts").mkdir()
    return tmp_path


def made(study: Path, session: str, rules: int = RULES - 1, model: str = "large-v3") -> Path:
    word = Word(word="velvet", start_s=0.5, end_s=1.0, confidence=0.9, level_db=-20)
    utterance = Utterance(start_s=0.5, end_s=1.0, text="velvet", words=(word,))
    provenance = Provenance(made_by="storyframes-transcribe 0.1.0", rules=rules, model={"name": model, "sha256": "0"})
    path = study / f"transcripts/{session}.json"
    write(path, TranscriptFile(provenance=provenance, utterances=(utterance,)))
    return path


def test_what_earlier_rules_made_is_named_with_the_command(study: Path) -> None:
    made(study, "s1")
    made(study, "s2", rules=RULES)
    corrected = made(study, "s3", model="whisper-base")
    corrected.write_text(corrected.read_text().replace("velvet", "velours"))
    (study / "transcripts/s4.json").write_text('{"utterances": []}')  # handed in
    made(study, "s6")  # of no session
    first, third = find_outdated(load_study(study))
    assert first.startswith("transcripts/s1.json: ")
    assert f"'storyframes transcribe {study}'" in first
    assert third.startswith("transcripts/s3.json: ")
    assert f"'storyframes transcribe {study} --model PATH/whisper-base'" in third
    assert "corrected by hand" in third
    assert "vel" not in first + third


def test_a_joined_transcript_with_the_first_rule_of_crosstalk_is_named(study: Path) -> None:
    """The first rule compared words, and kept those that a neighbour's microphone had heard otherwise."""
    for session, told in (("s1", {"joined": {"a": "0"}}), ("s2", {"joined": {"a": "0"}, "crosstalk_by": "1"})):
        file = read_made(made(study, session, rules=RULES))
        assert file is not None
        write(
            study / f"transcripts/{session}.json",
            file.model_copy(update={"provenance": file.provenance.model_copy(update=told)}),
        )
    (remark,) = find_outdated(load_study(study))
    assert missing(remark, "transcripts/s1.json", "crosstalk", f"'storyframes transcribe {study}'") == []


def test_a_transcript_that_the_tables_do_not_use_is_not_named(study: Path) -> None:
    made(study, "s1")
    (study / "own.json").write_text('{"utterances": []}')
    (study / "sessions.csv").write_text("session_id,participant_id,transcript\ns1,p1,own.json\n")
    assert [*find_outdated(load_study(study))] == []


def test_a_file_of_the_first_rules_does_not_count_as_corrected(study: Path) -> None:
    path = study / "transcripts/s1.json"
    path.write_text(OF_RULES_1.replace("DIGEST", DIGEST))
    before = read_made(path)
    assert before is not None
    assert before.provenance.rules == 1


def test_where_a_track_is_forgotten_no_turns_of_its_session_stay(tmp_path: Path) -> None:
    path = tmp_path / "transcripts/s1.json"
    path.parent.mkdir()
    said = Utterance(start_s=0.1, end_s=1.0, text="yes", words=())
    turn = Turn(start_s=0.1, end_s=1.0, speaker="a", person_id="a", probability=0.98)
    made = TranscriptFile(provenance=Provenance(made_by=MADE_BY), utterances=(said,), turns=(turn,))
    before = write(path, made)
    scope = Scope(ForgottenIds(frozenset(), tracks=frozenset({("s1", "lapel")})))
    (trace,) = find_forgotten(Asked(tmp_path, scope, []))
    trace.remove()
    assert read_made(path) == before.model_copy(update={"turns": None})
    assert list(find_forgotten(Asked(tmp_path, scope, []))) == []


def test_nor_does_anything_that_says_whose_voices_they_were(tmp_path: Path) -> None:
    path = tmp_path / "transcripts/s1.json"
    by = ByVoice(
        model={"name": "tiny.pt"},
        rules=1,
        persons=("anna", "pat"),
        enrolled={"pat": "0" * 64},
        least=0.9,
        by_hand={"pat": 2},
        by_file={"pat": 2},
        named={"pat": "hand"},
        doubts=("it is not clear which voice is that of pat",),
    )
    said = Utterance(start_s=0.1, end_s=1.0, text="yes", words=())
    write(path, TranscriptFile(provenance=Provenance(made_by=MADE_BY, by_voice=by), utterances=(said,)))
    asked = Asked(tmp_path, Scope(ForgottenIds(frozenset(), tracks=frozenset({("s1", "lapel")}))), [])
    (trace,) = find_forgotten(asked)
    trace.remove()
    assert not {"anna", "pat"} & {*re.findall(r"\w+", path.read_text())}
    made = read_made(path)
    assert made is not None
    assert read_transcript(path).doubtful_voices
    assert list(find_forgotten(asked)) == []


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["storyframes.check"] == {
        "transcribe": f"{find_outdated.__module__}:{find_outdated.__name__}"
    }


def test_made_transcripts_are_found_and_those_of_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "transcripts").mkdir()
    made = TranscriptFile(provenance=Provenance(made_by="storyframes-transcribe 0.1.0"), utterances=())
    for name in ("s1.json", "s1@lapel.json", "s2.json", "s2@lapel.json", "s10.json"):
        (tmp_path / "transcripts" / name).write_text(made.model_dump_json())
    (tmp_path / "transcripts/s3.json").write_text('{"utterances": []}')  # handed in
    scope = Scope(ForgottenIds(frozenset({"s1", "s3"}), tracks=frozenset({("s2", "lapel")})))
    found = [*find_forgotten(Asked(tmp_path, scope, []))]
    assert [Path(trace.where).name for trace in found] == ["s1.json", "s1@lapel.json", "s2@lapel.json"]


def test_the_entry_point_of_withdrawal_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["storyframes.forget"] == {
        "transcribe": f"{find_forgotten.__module__}:{find_forgotten.__name__}"
    }
