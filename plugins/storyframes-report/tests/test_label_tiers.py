"""Labels on the timeline of a session's page: every scheme and rater, on the clock of the timeline."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.media.recordings import write_video

from storyframes_report.devices import devices_of
from storyframes_report.report.label_facts import label_columns, session_ratings
from storyframes_report.report.timeline import timeline
from storyframes_report.report.timetable import Timetable, read_timetable
from tasks.inspect.session_curves import SessionCurves
from tasks.study.load import load_study

OFFSET_S = 1.5  # of the side camera's second 0 on the session's clock
TABLES = {
    "sessions": "session_id,participant_id,video\ns1,p1,main.avi\n",
    "tracks": "session_id,track,video,clock\ns1,side,side.avi,camera\n",
    "clocks": f"session_id,clock,clock_s,session_s\ns1,camera,0,{OFFSET_S}\n",
    "schemes": (
        "scheme,type,min,max,labels,private\nmood,nominal,,,calm|tense,\nwarmth,ordinal,1,5,,\nnote,text,,,,\n"
        "secret,nominal,,,,yes\nvalence,curve,-1,1,,\nremark,text,,,,no\n"
    ),
    "labels": (
        "session_id,scheme,value,start_s,end_s,track,rater_id\n"
        "s1,mood,calm,0,1,,anna\ns1,mood,tense,1,2.5,,anna\ns1,mood,tense,0.5,1,side,ben\n"
        "s1,warmth,4,0,2,,anna\ns1,warmth,2,2,2,,ben\ns1,note,he weeps,0,1,,anna\ns1,secret,shame,0,1,,anna\n"
        "s1,remark,she laughs,2,3,,anna\n"
    ),
    "curves": "session_id,scheme,path,rater_id,track\ns1,valence,valence.csv,anna,side\n",
    "valence": "time_s,value\n0,0.25\n1,-0.5\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    for name, table in TABLES.items():
        (folder / f"{name}.csv").write_text(table)
    for name in ("main", "side"):
        write_video(folder / f"{name}.avi", "mpeg4", [40 * frame for frame in range(100)])
    return folder


def read(folder: Path, track: str, *, with_text: bool = False) -> Timetable:
    study = load_study(folder)
    table, problem = read_timetable(study, "s1", devices_of(study, "s1")[track], None, None, with_text=with_text)
    assert problem == ""
    return table


def spans(table: Timetable) -> dict[tuple[str, str], list[tuple[float, float, Any]]]:
    return {(tier.scheme.name, tier.name): list(tier.spans) for tier in table.tiers if tier.curve is None}


def test_the_sessions_timeline_has_all_tiers_on_its_clock_and_nothing_private_or_written(folder: Path) -> None:
    table = read(folder, "main")
    assert spans(table) == {
        ("mood", "anna"): [(0, 1, "calm"), (1, 2.5, "tense")],
        ("mood", "ben"): [(0.5 + OFFSET_S, 1 + OFFSET_S, "tense")],
        ("remark", "anna"): [(2, 3, "")],
        ("warmth", "anna"): [(0, 2, 4.0)],
        ("warmth", "ben"): [(2, 2, 2.0)],
    }
    (curve,) = [tier.curve for tier in table.tiers if tier.curve is not None]
    assert curve.time_s.tolist() == [OFFSET_S, 1 + OFFSET_S]


def test_a_sessions_ratings_stand_by_rater_without_what_is_private_or_written(folder: Path) -> None:
    ratings = session_ratings(load_study(folder), "s1", with_text=False)
    assert ratings.raters == ("anna", "ben")
    assert ratings.rows == (
        ("mood", "", "calm: 1, tense: 1", ""),
        ("mood", "side", "", "tense"),
        ("remark", "", "1 text", ""),
        ("warmth", "", "4", "2"),
    )
    assert session_ratings(load_study(folder), "s1", with_text=True).rows[2] == ("remark", "", "she laughs", "")


def test_a_column_is_made_of_as_many_raters_as_labelled_a_unit() -> None:
    clips = pd.DataFrame({"warmth": [1.5], "mood": pd.Categorical(["calm"]), "split": ["train"]})
    units = {"warmth": [[1, 2, None], [3, None, None]], "mood": [[0, 0, 1]]}
    clips.attrs = {"schemes": {"warmth": "interval", "mood": "nominal"}, "ratings": {"s1": units}}
    made_of = {column.name: column.made_of for column in label_columns(clips)}
    assert made_of == {"warmth": "the mean of 1 to 2 raters", "mood": "the name that most give of 3 raters"}


def test_another_tracks_timeline_has_the_labels_of_its_own_recording(folder: Path) -> None:
    table = read(folder, "side")
    assert spans(table) == {("mood", "ben"): [(0.5, 1, "tense")]}
    (curve,) = [tier.curve for tier in table.tiers if tier.curve is not None]
    assert curve.time_s.tolist() == [0, 1]


def test_names_are_bands_and_numbers_are_steps(folder: Path) -> None:
    time = np.arange(60) / 15
    chart = timeline(SessionCurves("s1", time, 4.0), read(folder, "main"))
    assert chart is not None
    for row in (
        ("mood, anna", "0.00", "2.50", "", "", "", "calm: 1, tense: 1"),
        ("remark, anna", "2.00", "3.00", "", "", "", "labels: 1"),
        ("warmth, ben", "2.00", "2.00", "2", "2", "2", "1 values"),
        ("valence, anna", "1.50", "2.50", "-0.5", "-0.125", "0.25", "2 values"),
    ):
        assert row in chart.rows
    figure = json.loads(chart.figure.to_json())
    titles = [unescape(one["text"]).split(":")[0] for one in figure["layout"]["annotations"]]
    assert titles == ["mood", "remark", "warmth", "valence"]
    bands = [one for one in figure["data"] if one["type"] == "bar" and "anna" in one["y"]]
    assert bands[0]["text"] == ["calm", "tense"]
    assert len(set(bands[0]["marker"]["color"])) == 2  # a colour for each name
    assert "shame" not in str(figure)
    assert "weeps" not in str(figure)
    assert "laughs" not in str(figure)
    assert spans(read(folder, "main", with_text=True))["remark", "anna"] == [(2, 3, "she laughs")]
    steps = [one for one in figure["data"] if one["type"] == "scatter" and one["name"] == "anna"]
    assert [4, 4, None] in [list(one["y"]) for one in steps if isinstance(one["y"], list)]


def test_a_damaged_curve_is_named_and_the_rest_is_shown(folder: Path, tmp_path: Path) -> None:
    study = load_study(folder)
    content = (folder / "valence.csv").read_text()
    try:
        (folder / "valence.csv").write_text("time_s,value\n0,0.1\n0,0.2\n")
        table, problem = read_timetable(study, "s1", devices_of(study, "s1")["main"], None, None, with_text=False)
    finally:
        (folder / "valence.csv").write_text(content)
    assert "valence.csv: row 3, time_s" in problem
    assert len(table.tiers) == 5
