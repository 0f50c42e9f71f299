"""Rows of people who withdrew leave the predictions of runs; the table stays one that scoring reads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes_empathy.scores.forgetting import find
from storyframes_empathy.scores.predictions import SCHEMA
from tasks.forgetting import Asked
from tasks.forgetting.scope import Scope
from tasks.study.forgotten_ids import ForgottenIds


def test_rows_of_the_forgotten_leave_the_predictions(tmp_path: Path) -> None:
    folder = tmp_path / "runs/reflection/amer/vision/0"
    folder.mkdir(parents=True)
    rows = [
        {"clip_id": f"{session}:1", "session_id": session, "participant_id": who, "story_id": None, "phase": "r",
         "rating": 1.0, "split": "test", "score": 2.0, "copies": 1}
        for session, who in (("s1", "p1"), ("s2", "p2"), ("s3", "p3"))
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, SCHEMA).replace_schema_metadata({"storyframes.run": "abc"})
    pq.write_table(table, folder / "predictions.parquet")
    scope = Scope(ForgottenIds(frozenset({"s1"}), frozenset({"p3"})))
    (trace,) = find(Asked(tmp_path / "study", scope, [tmp_path / "runs"]))
    trace.remove()
    left = pq.read_table(folder / "predictions.parquet")
    assert left["session_id"].to_pylist() == ["s2"]
    assert left.schema.equals(table.schema, check_metadata=True)
    assert not [*find(Asked(tmp_path / "study", scope, [tmp_path / "runs"]))]


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["storyframes.forget"] == {"empathy": f"{find.__module__}:{find.__name__}"}
