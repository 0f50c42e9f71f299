"""The way of a text to rows of an ``[[embed]]`` section is read in few files."""

from __future__ import annotations

import json
from pathlib import Path

from support.called_files import called_files, described
from support.media.recordings import FPS, write_recording
from support.models.tiny_text_models import make_model
from support.studies import extract_session, make_study

from storyframes.store.records import Status
from tasks.extract import extract
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

MOST = 34


def test_a_text_comes_to_its_rows_in_few_files(tmp_path: Path) -> None:
    """In a process that has extracted another session: the model is known, caches are filled."""
    bert = make_model(tmp_path / "bert", "bert")
    study = tmp_path / "study"
    study.mkdir()
    write_recording(study / "v.mkv", FPS)
    (study / "t.json").write_text(json.dumps({"utterances": [{"start_s": 0.1, "end_s": 0.9, "text": "the garden"}]}))
    make_study(study, video="v.mkv", transcript="t.json")
    model = {"name": "tiny", "kind": "text", "source": f"path:{bert}", "pool": "mean"}
    extract_session(study, tmp_path / "features", "frames", "tiny", embed=[model])
    settings = ExtractorsSettings(embed=[model])
    again = Selection(("s",), ("tiny",), force=True)
    (unit,) = plan_extraction(load_study(study), tmp_path / "features", settings, again).units
    with called_files() as way:
        (outcome,) = extract(unit)
    assert outcome.status is Status.DONE
    assert 10 < len(way) <= MOST, described(way)
