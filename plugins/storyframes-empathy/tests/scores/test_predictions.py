"""run.json and predictions.parquet: what is written is what is read, and a row that breaks a rule is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import naming

from storyframes_empathy.scores.predictions import FILE, SCHEMA, read_predictions, scaled_scores, write_predictions
from storyframes_empathy.scores.run_record import RECORD, Level, Run, RunError, ScoreScale, read_run, write_run

RUN = Run(phase="story_share", model="ef_lstm", modalities="v+a+t", seed=2)


def table(**columns: object) -> pd.DataFrame:
    rows = {
        "clip_id": ["c0", "c1", "c2"],
        "session_id": ["s0", "s0", "s1"],
        "participant_id": ["p0", "p0", "p1"],
        "story_id": ["a", "b", None],
        "phase": ["story_share"] * 3,
        "rating": [1, 4, 5],
        "split": ["val", "test", "test"],
        "score": [0.25, -0.5, 1.5],
        "copies": [1, 1, 1],
    }
    return pd.DataFrame(rows | columns)


def fault(folder: Path, run: Run, broken: pd.DataFrame) -> str:
    with pytest.raises(RunError) as raised:
        write_predictions(folder, run, broken)
    assert not (folder / FILE).exists()
    return str(raised.value)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    write_run(tmp_path, RUN)
    write_predictions(tmp_path, RUN, table())
    read = read_predictions(tmp_path, read_run(tmp_path))
    assert read.run == RUN
    assert list(read.table.columns) == SCHEMA.names
    assert read.table["score"].tolist() == [0.25, -0.5, 1.5]
    assert read.table["story_id"].isna().tolist() == [False, False, True]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_other_peoples_files_may_have_other_types(tmp_path: Path) -> None:
    content = table(extra="more", score=np.array([0.25, -0.5, 1.5], np.float32))
    content["participant_id"] = content["participant_id"].astype("category")
    content.drop(columns="copies").to_parquet(tmp_path / FILE)
    read = read_predictions(tmp_path, RUN).table
    assert read["copies"].tolist() == [1, 1, 1]
    assert read["participant_id"].tolist() == ["p0", "p0", "p1"]
    assert "extra" not in read


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"score": [0.1, np.nan, 0.2]}, "row 1 (from 0), clip c1: score nan: every score of a run must be finite"),
        ({"score": [0.1, 0.2, -np.inf]}, "row 2 (from 0), clip c2: score -inf"),
        ({"score": [0.1, None, 0.2]}, "row 1 (from 0), clip c1: score nan"),
        ({"score": np.array([0.1, None, 0.2], object)}, "row 1 (from 0), clip c1: has no score"),
        ({"score": ["a", "b", "c"]}, "column score is string: must be numbers"),
        ({"rating": [1, 6, 5]}, "row 1 (from 0), clip c1: rating 6: the scheme 'empathy' goes from 1 to 5"),
        ({"rating": [1, np.nan, 5]}, "row 1 (from 0), clip c1: rating nan"),
        ({"rating": np.array([1, None, 5], object)}, "row 1 (from 0): rating is empty: leave out clips without"),
        ({"phase": ["story_share", "reflection", "story_share"]}, "row 1 (from 0), clip c1: phase 'reflection', and"),
        ({"clip_id": ["c0", "c2", "c2"]}, "row 2 (from 0), clip c2: is there twice"),
        ({"clip_id": ["c0", None, "c2"]}, "row 1 (from 0): clip_id is empty"),
        ({"clip_id": [0, 1, 2]}, "column clip_id is int64: must be text"),
        ({"copies": [1, 0, 1]}, "row 1 (from 0), clip c1: copies 0: must be 1 or more"),
        ({"copies": [1, 1.5, 1]}, "column copies"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(tmp_path: Path, columns: dict, said: str) -> None:
    assert f"{tmp_path / FILE}: {said}" in fault(tmp_path, RUN, table(**columns))


def test_a_score_that_pandas_wrote_as_none_is_no_missing_answer(tmp_path: Path) -> None:
    table(score=[0.1, np.nan, 0.2]).to_parquet(tmp_path / FILE)
    with pytest.raises(RunError, match=naming("clip c1", "pandas writes NaN as none")):
        read_predictions(tmp_path, RUN)


def test_an_answer_may_be_missing_where_the_run_says_so(tmp_path: Path) -> None:
    run = RUN.model_copy(update={"may_be_missing": True})
    write_predictions(tmp_path, run, table(score=np.array([0.1, None, 0.2], object)))
    assert read_predictions(tmp_path, run).table["score"].isna().tolist() == [False, True, False]
    (tmp_path / FILE).unlink()
    assert "score nan" in fault(tmp_path, run, table(score=[0.1, np.nan, 0.2]))


def test_predictions_of_an_earlier_run_are_not_those_of_a_later(tmp_path: Path) -> None:
    earlier, later = (RUN.model_copy(update={"fingerprint": one}) for one in ("a" * 64, "b" * 64))
    write_predictions(tmp_path, earlier, table())
    with pytest.raises(RunError, match=naming("run.json", "is of another run than")):
        read_predictions(tmp_path, later)
    for run in (earlier, RUN):  # who has no fingerprint is believed
        assert len(read_predictions(tmp_path, run).table) == 3
    assert list(pd.read_parquet(tmp_path / FILE)["clip_id"]) == ["c0", "c1", "c2"]


def test_the_same_clip_may_be_in_two_splits(tmp_path: Path) -> None:
    write_predictions(tmp_path, RUN, table(clip_id=["c1", "c1", "c2"]))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    assert "has no column phase, score" in fault(tmp_path, RUN, table().drop(columns=["phase", "score"]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_file_is_said_to_be_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RunError, match=naming("is not a whole Parquet")):
        read_predictions(tmp_path, RUN)


def test_no_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"predictions\.parquet: is missing"):
        read_predictions(tmp_path, RUN)
    with pytest.raises(RunError, match=naming("run.json", "cannot be read")):
        read_run(tmp_path)


def test_what_a_run_need_not_say(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text('{"phase": "reflection", "model": "ridge", "modalities": "t+a"}')
    run = read_run(tmp_path)
    assert (run.modalities, run.seed, run.level) == ("a+t", 0, Level.CLIP)
    assert (run.minimum, run.maximum, run.threshold, run.score_threshold) == (1, 5, 3, 0.5)


@pytest.mark.parametrize(
    ("more", "threshold", "score_threshold"),
    [
        ({}, 4, 0.5),
        ({"threshold": 6}, 6, 0.75),
        ({"label": "unit"}, 4, 0.5),
        ({"label": "rating", "threshold": 6}, 6, 6),
        ({"label": "binary", "threshold": 6}, 6, 0.5),
        ({"score_threshold": 0.3}, 4, 0.3),
    ],
)
def test_thresholds_of_other_schemes(more: dict, threshold: float, score_threshold: float) -> None:
    run = Run.model_validate(
        {"phase": "p", "model": "m", "modalities": "v", "scheme": "valence", "minimum": 0, "maximum": 8} | more
    )
    assert (run.threshold, run.score_threshold) == (threshold, score_threshold)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"treshold": 3}, "treshold: there is no such key"),
        ({"scheme": "valence"}, "minimum: is missing: give the scheme's smallest and largest rating"),
        ({"minimum": 5}, "minimum 5 must be below maximum 5"),
        ({"threshold": 5}, "threshold 5: must be from minimum 1 to below maximum 5"),
        ({"modalities": "v+v"}, "modalities: 'v+v': name each modality once"),
        ({"label": "percent"}, "label: 'percent'"),
        ({"format": 2}, "format: 2"),
        ({"seed": -1}, "seed: -1"),
        ({"level": "window"}, "level: 'window'"),
        ({"score_threshold": "x"}, "score_threshold: 'x'"),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused(tmp_path: Path, content: dict, said: str) -> None:
    whole = {"phase": "reflection", "model": "ridge", "modalities": "t"} | content
    (tmp_path / RECORD).write_text(json.dumps(whole))
    with pytest.raises(RunError) as raised:
        read_run(tmp_path)
    assert str(tmp_path / RECORD) in str(raised.value)
    assert said in str(raised.value)


def test_a_record_without_limits_is_not_also_said_to_have_no_threshold(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text('{"phase": "p", "model": "m", "modalities": "t", "scheme": "valence"}')
    with pytest.raises(RunError) as raised:
        read_run(tmp_path)
    assert "threshold" not in str(raised.value)


@given(st.floats(-3, 9), st.floats(0.5, 9.5))
def test_every_scale_is_brought_to_one(rating: float, top: float) -> None:
    low, high = -1.0, top
    for label, score in ((ScoreScale.RATING, rating), (ScoreScale.UNIT, rating / high)):
        run = Run.model_validate(
            {"phase": "p", "model": "m", "modalities": "v", "scheme": "x", "minimum": low, "maximum": high}
            | {"label": label, "threshold": low}
        )
        got = scaled_scores(np.array([score]), run)[0]
        assert got == pytest.approx((rating - low) / (high - low), abs=1e-9)


def test_a_table_of_no_rows_is_a_table(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([], schema=SCHEMA), tmp_path / FILE)
    assert len(read_predictions(tmp_path, RUN).table) == 0
