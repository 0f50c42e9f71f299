"""A filter says what pandas would say, and nothing of it is ever run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storyframes.clips.filters import filter_clips

INDEX = pd.DataFrame(
    {
        "clip_id": [f"c{number}" for number in range(6)],
        "split": ["train", "val", "train", "test", "train", "it's"],
        "empathy": [1, 2, 3, 4, 5, 3],
        "face_tracked": [0.95, 0.5, np.nan, 1.0, 0.0, 0.9],
        "words": pd.array([4, None, 0, 7, 2, None], dtype="Int64"),
        "has_dope": [True, False, True, False, True, False],
        "start_s": np.arange(6.0),
    }
)


def chosen(where: str) -> list[int]:
    return [int(clip_id[1:]) for clip_id in filter_clips(INDEX, where)["clip_id"]]


@pytest.mark.parametrize(
    ("where", "clips"),
    [
        ('split == "train" and face_tracked >= .9', [0]),
        ("split == 'val' or (split == 'test' and empathy > 3)", [1, 3]),
        ('split == "it\'s"', [5]),
        ("empathy in [1, 2] or empathy in (5,)", [0, 1, 4]),
        ("empathy not in {3}", [0, 1, 3, 4]),
        ("2 <= empathy < 4", [1, 2, 5]),
        ("has_dope", [0, 2, 4]),
        ("not has_dope and not (empathy == 3)", [1, 3]),
        ("(has_dope) & ~(empathy > 2) | (start_s == 5)", [0, 5]),
        ("has_dope == False", [1, 3, 5]),
        ("(start_s + 1) * 2 - 1 == 5 or start_s / 2 == .5", [1, 2]),
        ("-start_s < -4", [5]),
        ("words > 1", [0, 3, 4]),
        ("not words > 1", [2]),  # nor is a missing number of words at most one
        ("words not in [4]", [2, 3, 4]),
        ("words in [-1, 0]", [2]),
        ("face_tracked != 1", [0, 1, 4, 5]),
        ("words is null", [1, 5]),
        ("words is not null and not face_tracked is null", [0, 3, 4]),
        ("words is null or words > 4", [1, 3, 5]),
        (" empathy == 5\n", [4]),
    ],
)
def test_clips_are_chosen(where: str, clips: list[int]) -> None:
    assert chosen(where) == clips


@given(
    column=st.sampled_from(["empathy", "start_s", "face_tracked"]),
    comparison=st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    value=st.one_of(st.integers(-1, 6), st.sampled_from([0.5, 0.9, 2.5])),
    also=st.sampled_from(["and has_dope", "or has_dope", "and split == 'train'", ""]),
)
def test_comparisons_are_those_of_pandas(column: str, comparison: str, value: float, also: str) -> None:
    where = f"({column} {comparison} {value} {also}) or start_s == 5"  # one clip always is left
    known = INDEX[INDEX[column].notna()]  # pandas takes NaN to be unequal to everything
    expected = [int(clip_id[1:]) for clip_id in known[known.eval(where)]["clip_id"]]
    assert [clip for clip in chosen(where) if clip in known.index] == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("face >= .9", "'face' is no column; text goes into quotes.; the clip index has clip_id, split"),
        ("split == train", "'train' is no column; text goes into quotes"),
        ("split = 'train'", "invalid syntax"),
        ("", "invalid syntax"),
        ("empathy + 1", "must evaluate to bool"),
        ("1 < 2", "'1 < 2' names no column"),
        ("has_dope and True", "'True' names no column"),
        ("empathy == 1 & has_dope", "'1' names no column"),
        ("split > 3", "no kernel matching"),
        ("empathy == None", "'None' is no text, number"),
        ("empathy in words", "'words' is no list: write .1, 2. behind 'in'"),
        ("empathy in [words]", "'words' is no text, number, True or False"),
        ("empathy is 1", "write =="),
        ("empathy is None", "'column is null'"),
        ("1 is null", "'column is null'"),
        ("empathy is null is null", "'null' is no column"),
        ("split > null", "'null' is no column"),
        ("empathy == 99999999999999999999999", "too large|too big"),
        ("empathy % 2 == 0", "'empathy % 2' is not allowed in a filter"),
        ("-split == 'a'", "no kernel matching"),
        ("empathy > 5", "no clip is left: none of the 6 in the clip index has 'empathy > 5'"),
        ("(" * 6000 + "has_dope" + ")" * 6000, "more than 10000"),
        ("not " * 2400 + "has_dope", "nested too deeply|recursion"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(where: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        filter_clips(INDEX, where)


@pytest.mark.parametrize(
    "where",
    [
        "__import__('os').mkdir('{}') or has_dope",
        "clip_id.to_csv('{}') == 1",
        "[open('{}', 'w') for number in [1]] == 1",
        "has_dope == (lambda: open('{}', 'w'))()",
        "@open('{}', 'w') == 1",
        "f\"{{open('{}', 'w')}}\" == split",
        "empathy in [open('{}', 'w')]",
        "has_dope if open('{}', 'w') else has_dope",
        "(path := '{}') == split",
    ],
)
def test_nothing_of_a_filter_is_run(where: str, tmp_path) -> None:
    target = tmp_path / "made"
    with pytest.raises(ValueError, match="cannot be applied"):
        filter_clips(INDEX, where.format(target))
    assert not target.exists()
