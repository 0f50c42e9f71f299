"""Transcripts of people who withdrew are found by the entry point of the plug-in, and no other file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from storyframes_transcribe.transcript_file import Provenance, TranscriptFile, find_forgotten

from tasks.forgetting import Asked
from tasks.forgetting.scope import Scope
from tasks.study.forgotten_ids import ForgottenIds

# Like all tests of the plug-in, which the short tier leaves out: it cannot be imported without.
pytestmark = pytest.mark.needs("faster_whisper")


def test_made_transcripts_are_found_and_those_of_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "transcripts").mkdir()
    made = TranscriptFile(provenance=Provenance(made_by="storyframes-transcribe 0.1.0"), utterances=())
    for name in ("s1.json", "s1@lapel.json", "s2.json", "s2@lapel.json", "s10.json"):
        (tmp_path / "transcripts" / name).write_text(made.model_dump_json())
    (tmp_path / "transcripts/s3.json").write_text('{"utterances": []}')  # handed in
    scope = Scope(ForgottenIds(frozenset({"s1", "s3"}), tracks=frozenset({("s2", "lapel")})))
    found = [*find_forgotten(Asked(tmp_path, scope, []))]
    assert [Path(trace.where).name for trace in found] == ["s1.json", "s1@lapel.json", "s2@lapel.json"]


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["storyframes.forget"] == {
        "transcribe": f"{find_forgotten.__module__}:{find_forgotten.__name__}"
    }
