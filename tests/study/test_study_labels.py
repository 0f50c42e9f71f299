"""The tables of any study: schemes, labels, curves, raters, tracks, clocks and persons."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from support.media.recordings import write_video
from support.messages import missing, unlike

from flows.cli.start import study_table
from storyframes.clips.window_spec import WindowSpec
from storyframes.store.layout import ID_PATTERN
from tasks.clip_index.index import build_clip_index
from tasks.clip_index.label_rules import LabelRule
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study
from tasks.study.curves import CurveError, CurveSamples
from tasks.study.labels import Label, RaterKind, Scheme, SchemeType
from tasks.study.load import Study, StudyError, load_study, read_study
from tasks.study.rows import TABLES, Curve, Person, Rater, Track

DYAD = {
    "sessions": "session_id,participant_id,video,transcript\ns1,p1,a.avi,a.json\ns2,p3,b.avi,\n",
    "participants": "participant_id,age\np1,9\np2,8\np3,10\n",
    "persons": "session_id,person_id,participant_id,role\ns1,child_a,p1,child\ns1,child_b,p2,child\ns1,robot,,robot\n",
    "tracks": "session_id,track,video,audio,person_id,clock\ns1,child_b,b2.mp4,,child_b,cam_b\n"
    "s1,lapel_a,,l.wav,child_a,\n",
    "clocks": "session_id,clock,clock_s,session_s\ns1,cam_b,0,3.2\ns1,cam_b,3600.144,3603.2\n",
    "schemes": (
        "scheme,type,min,max,labels,private\nvalence,interval,-1,1,,\nengaged,ordinal,,,low|medium|high,\n"
        "act,nominal,,,talk|listen,\nnote,text,,,,\nstress,curve,0,100,,\nhalf,ordinal,1,5,,\n"
    ),
    "raters": "rater_id,kind\nr1,human\nr2,machine\nr3,\n",
    "labels": (
        "session_id,scheme,value,start_s,end_s,track,person_id,target,rater_id,confidence\n"
        "s1,valence,-0.25,1.5,3,child_b,child_b,,r1,0.5\n"
        "s1,engaged,high,,,,child_a,,r1,\n"
        "s1,act,talk,2,2,main,,,,\n"
        's2,note,"she laughs, twice",0,10,,,,,\n'
        "s2,half,3.5,,,,,st-1,r2,1\n"
    ),
    "curves": "session_id,scheme,path,rater_id,track\ns1,stress,curves/s1.csv,r2,child_b\n",
}


def write_study(folder: Path, **tables: str | None) -> Path:
    """The dyad with some of its tables otherwise; None leaves a table out."""
    folder.mkdir(exist_ok=True)
    for table, content in (DYAD | tables).items():
        (folder / f"{table}.csv").unlink(missing_ok=True)
        if content is not None:
            (folder / f"{table}.csv").write_text(content)
    return folder


def problems(study: Path) -> list[str]:
    with pytest.raises(StudyError) as error:
        load_study(study)
    return [str(problem) for problem in error.value.problems]


def a_label(**cells: str) -> str:
    """A table of one label."""
    cells = {"session_id": "s1", "scheme": "valence", "value": "0"} | cells
    return ",".join(cells) + "\n" + ",".join(cells.values()) + "\n"


def test_a_dyad_becomes_one_model(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path))
    assert study.schemes == {
        "valence": Scheme("valence", SchemeType.INTERVAL, -1.0, 1.0),
        "engaged": Scheme("engaged", SchemeType.ORDINAL, labels=("low", "medium", "high")),
        "act": Scheme("act", SchemeType.NOMINAL, labels=("talk", "listen")),
        "note": Scheme("note", SchemeType.TEXT, private=True),
        "stress": Scheme("stress", SchemeType.CURVE, 0.0, 100.0),
        "half": Scheme("half", SchemeType.ORDINAL, 1.0, 5.0),
    }
    assert study.labels == (
        Label("s1", "valence", -0.25, 1.5, 3.0, "child_b", "child_b", None, "r1", 0.5),
        Label("s1", "engaged", "high", person_id="child_a", rater_id="r1"),
        Label("s1", "act", "talk", 2.0, 2.0),
        Label("s2", "note", "she laughs, twice", 0.0, 10.0),
        Label("s2", "half", 3.5, target="st-1", rater_id="r2", confidence=1.0),
    )
    curve = Curve(session_id="s1", scheme="stress", path="curves/s1.csv", rater_id="r2", track="child_b")
    assert study.curves == (curve,)
    assert study.raters["r2"] == Rater(rater_id="r2", kind=RaterKind.MACHINE)
    assert study.raters["r3"] == Rater(rater_id="r3")
    assert study.persons[2] == Person(session_id="s1", person_id="robot", role="robot")
    assert study.tracks["s1"] == {
        "main": Track("s1", "main", "a.avi", transcript="a.json"),
        "child_b": Track("s1", "child_b", "b2.mp4", person_id="child_b", clock="cam_b"),
        "lapel_a": Track("s1", "lapel_a", audio="l.wav", person_id="child_a"),
    }
    assert study.clock("s1", "child_b").to_session(0.0) == 3.2
    assert study.clock("s1", "lapel_a") == study.clock("s1", None) == study.clock("s2", "main")
    assert study.remarks == ()


def test_ratings_are_labels_of_the_scheme_empathy(demo_study: Path) -> None:
    study = load_study(demo_study)
    assert study.schemes == {"empathy": Scheme("empathy", SchemeType.ORDINAL, 1.0, 5.0)}
    assert len(study.labels) == len(study.ratings) == 9
    assert study.labels[0] == Label("p01-s01", "empathy", 4.0, target="st-garden")
    assert [track.name for track in study.tracks["p01-s01"].values()] == ["main"]


def test_ratings_and_labels_in_one_study(study_copy: Path) -> None:
    header = "session_id,scheme,value,target,rater_id\n"
    (study_copy / "labels.csv").write_text(header + "p01-s01,empathy,2,st-garden,r1\n")
    assert len(load_study(study_copy).labels) == 10
    (study_copy / "labels.csv").write_text(header + "p01-s01,empathy,2,st-garden,\n")
    assert not unlike(problems(study_copy), ("labels, row 2", "scheme = 'empathy'", "'ratings'"))
    (study_copy / "labels.csv").unlink()
    (study_copy / "schemes.csv").write_text("scheme,type,min,max\nempathy,interval,0,100\n")
    assert not unlike(problems(study_copy), ("schemes, row 2", "scheme = 'empathy'", "'ratings'"))


@pytest.mark.parametrize("table", ["labels", "schemes", "curves", "tracks", "clocks", "persons", "raters"])
def test_the_new_tables_are_read_from_parquet_too(tmp_path: Path, table: str) -> None:
    expected = load_study(write_study(tmp_path))
    pd.read_csv(tmp_path / f"{table}.csv").to_parquet(tmp_path / f"{table}.parquet")
    (tmp_path / f"{table}.csv").unlink()
    assert load_study(tmp_path) == expected


def test_numbers_in_parquet_are_labels_as_they_stand(tmp_path: Path) -> None:
    write_study(tmp_path, schemes="scheme,type,labels\ncode,nominal,1|2\nyes,nominal,\n", labels=None, curves=None)
    frame = pd.DataFrame({"session_id": ["s1", "s2"], "scheme": "code", "value": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "labels.parquet")
    assert [label.value for label in load_study(tmp_path).labels] == ["1", "2"]
    frame.assign(scheme="yes", value=[True, False]).to_parquet(tmp_path / "labels.parquet")
    assert [label.value for label in load_study(tmp_path).labels] == ["true", "false"]


# --- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"value": "1.01"}, "value = '1.01': is outside the scheme 'valence', which is interval from -1 to 1"),
        ({"value": "happy"}, "value = 'happy': must be a number: the scheme 'valence' is interval from -1 to 1"),
        ({"value": "nan"}, "value = 'nan': must be a number: the scheme 'valence' is interval from -1 to 1"),
        ({"value": "1_0"}, "value = '1_0': must be a number: the scheme 'valence' is interval from -1 to 1"),
        ({"value": ""}, "value = '': a value is required"),
        (
            {"scheme": "half", "value": "0.5"},
            "value = '0.5': is outside the scheme 'half', which is ordinal from 1 to 5",
        ),
        (
            {"scheme": "engaged", "value": "hihg"},
            "value = 'hihg': is not among the labels of the scheme 'engaged' (low, medium, high): is 'high' meant?",
        ),
        (
            {"scheme": "act", "value": "Talk"},
            "value = 'Talk': is not among the labels of the scheme 'act' (talk, listen): is 'talk' meant?",
        ),
        ({"session_id": "s3"}, "session_id = 's3': is not in the table 'sessions'"),
        ({"session_id": "S1"}, "session_id = 'S1': is not in the table 'sessions': is 's1' meant?"),
        ({"scheme": "valance"}, "scheme = 'valance': is not in the table 'schemes': is 'valence' meant?"),
        ({"track": "child_c"}, "track = 'child_c': is no track of this session: is 'child_b' meant?"),
        ({"track": "x"}, "track = 'x': is no track of this session"),
        ({"session_id": "s2", "track": "lapel_a"}, "track = 'lapel_a': is no track of this session"),
        (
            {"person_id": "child_c"},
            "person_id = 'child_c': is not in the table 'persons' for this session: is 'child_b' meant?",
        ),
        (
            {"session_id": "s2", "person_id": "child_b"},
            "person_id = 'child_b': is not in the table 'persons' for this session",
        ),
        ({"rater_id": "r9"}, "rater_id = 'r9': is not in the table 'raters'"),
        ({"start_s": "3", "end_s": "2"}, "end_s = '2.0': must not be before start_s, which is 3.0"),
        ({"start_s": "-1", "end_s": "2"}, "start_s = '-1': Input should be greater than or equal to 0"),
        (
            {"start_s": "1"},
            "start_s = '1.0': is given without end_s: a part has both, the whole session neither, and a moment the "
            "same twice",
        ),
        (
            {"end_s": "1"},
            "end_s = '1.0': is given without start_s: a part has both, the whole session neither, and a moment the "
            "same twice",
        ),
        ({"confidence": "1.5"}, "confidence = '1.5': Input should be less than or equal to 1"),
        (
            {"scheme": "stress"},
            "scheme = 'stress': belongs to the scheme 'stress', which is a curve: name its file in the table 'curves'",
        ),
    ],
)
def test_what_is_wrong_with_a_label(tmp_path: Path, cells: dict[str, str], problem: str) -> None:
    assert problems(write_study(tmp_path, labels=a_label(**cells))) == [f"labels, row 2, {problem}"]


def test_a_private_value_is_in_no_problem(tmp_path: Path) -> None:
    schemes = "scheme,type,labels,private\nsecret,nominal,yes|no,true\n"
    study = write_study(tmp_path, schemes=schemes, labels=a_label(scheme="secret", value="divorced"), curves=None)
    assert not unlike(problems(study), ("labels, row 2", "value = (8 characters)", "'secret'"))


def test_labels_that_are_there_twice_name_each_other(tmp_path: Path) -> None:
    header = "session_id,scheme,value,start_s,end_s,person_id,rater_id\n"
    same = "s1,valence,0,1,2,child_a,r1\ns1,valence,1,1,2,child_a,r1\n"
    other = "s1,valence,1,1,2,child_b,r1\ns1,valence,1,1,2,child_a,r2\ns1,valence,1,1,3,child_a,r1\n"
    assert not unlike(
        problems(write_study(tmp_path, labels=header + other + same)),
        ("labels, row 5", "scheme = 'valence'", "row 6", "session_id", "rater_id", "start_s", "end_s", "person_id"),
    )


def test_main_is_the_session_itself(tmp_path: Path) -> None:
    labels = "session_id,scheme,value,track\ns1,valence,0,main\ns1,valence,1,\n"
    curves = "session_id,scheme,path,track\ns1,stress,a.csv,main\ns1,stress,b.csv,\n"
    first, second = problems(write_study(tmp_path, labels=labels, curves=curves))
    assert not missing(first, "row 3 has", "is labelled twice")
    assert not missing(second, "but row 3 has", "must be unique")


def test_a_scheme_that_is_wrong_is_not_reported_again_by_its_labels(tmp_path: Path) -> None:
    schemes = "scheme,type,min,max\nvalence,interval,1,-1\n"
    (problem,) = problems(write_study(tmp_path, schemes=schemes, labels=a_label(), curves=None))
    assert problem.startswith("schemes, row 2, max")


def test_a_label_that_ends_after_a_day_costs_its_sessions_clips_alone(tmp_path: Path) -> None:
    reading = read_study(write_study(tmp_path, labels=a_label(start_s="0", end_s="1700000000")))
    assert reading.problems == []
    assert list(reading.study.excluded) == ["s1"]
    assert not missing(str(reading.session_problems[0]), "labels are in seconds from")


# --- schemes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("x,interval,1,0,,", "max = '0.0': must be above min, which is 1"),
        ("x,nominal,1,,,", "min = '1.0': belongs to numbers, and this scheme is nominal"),
        ("x,text,,2,,", "max = '2.0': belongs to numbers, and this scheme is text"),
        (
            "x,ordinal,1,2,a|b,",
            "labels = (10 characters): says which values there are, and so do min and max: keep one",
        ),
        (
            "x,interval,,,a|b,",
            "labels = (10 characters): belongs to a nominal or ordinal scheme, and this one is interval",
        ),
        ("x,nominal,,,a|a,", "labels = 'a|a': the labels are separated by '|', and none is empty or there twice"),
        ("x,nominal,,,a||b,", "labels = 'a||b': the labels are separated by '|', and none is empty or there twice"),
        ("x,numeric,,,,", "type = 'numeric': Input should be 'nominal', 'ordinal', 'interval', 'text' or 'curve'"),
        ("x,nominal,,,,maybe", "private = 'maybe': Input should be a valid boolean"),
    ],
)
def test_what_is_wrong_with_a_scheme(tmp_path: Path, row: str, problem: str) -> None:
    study = write_study(tmp_path, schemes=f"scheme,type,min,max,labels,private\n{row}\n", labels=None, curves=None)
    (found,) = problems(study)
    assert found.startswith(f"schemes, row 2, {problem}")


def test_a_scheme_that_is_not_declared(tmp_path: Path) -> None:
    def labelled(*values: str) -> Path:
        rows = "".join(f"s{number},mood,{value}\n" for number, value in enumerate(values, start=1))
        return write_study(tmp_path, schemes=None, labels="session_id,scheme,value\n" + rows, curves=None)

    study = load_study(labelled("sad", "glad"))
    assert study.schemes == {"mood": Scheme("mood", SchemeType.NOMINAL, labels=("glad", "sad"))}
    assert not unlike(study.remarks, ("scheme mood", "'schemes'", "with 2 labels"))
    for values in (("1", "2"), ("0.5", "sad"), ("quite sad", "glad")):
        assert not unlike(problems(labelled(*values)), ("labels, row 2", "scheme = 'mood'", "'schemes'"))


def test_an_undeclared_curve_is_a_curve_and_a_declared_label_is_none(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, schemes=None, labels=None))
    assert study.schemes == {"stress": Scheme("stress", SchemeType.CURVE)}
    assert not unlike(study.remarks, ("scheme stress", "'schemes'"))
    assert not unlike(
        problems(write_study(tmp_path, labels=None, schemes="scheme,type\nstress,interval\n")),
        ("curves, row 2", "scheme = 'stress'", "'labels'"),
    )


# --- raters, persons, tracks, clocks ---------------------------------------------------------------------------------


def test_raters_need_no_table(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, raters=None))
    assert study.raters == {"r1": Rater(rater_id="r1"), "r2": Rater(rater_id="r2")}


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (
            {"persons": DYAD["persons"].replace("p2", "p4"), "participants": DYAD["participants"]},
            ["persons, row 3, participant_id = 'p4': is not in the table 'participants'"],
        ),
        (
            {"participants": None},
            ["persons, row 3, participant_id = 'p2': is not in the table 'sessions'"],
        ),
        (
            {"persons": DYAD["persons"] + "s1,robot,,\n"},
            ["persons, row 4, person_id = 'robot': must be unique, but row 5 has the same session_id and person_id"],
        ),
        (
            {"tracks": DYAD["tracks"].replace("s1,lapel_a", "s1,main")},
            [
                "tracks, row 3, track = 'main': is the track of the table 'sessions', whose files belong to 'main': "
                "name this one otherwise"
            ],
        ),
        (
            {"tracks": DYAD["tracks"].replace("l.wav", "../l.wav")},
            ["tracks, row 3, audio = '../l.wav': a path is relative to the study folder and never leaves it"],
        ),
        (
            {"tracks": DYAD["tracks"].replace("l.wav", "")},
            [
                "tracks, row 3, track = 'lapel_a': has no file: give one of video, audio, transcript, openface, or the "
                "region of a picture"
            ],
        ),
        (
            {"tracks": DYAD["tracks"].replace("lapel_a", "Child_B")},
            ["tracks, row 2, track = 'child_b': must differ in more than case, but row 3 has the same letters"],
        ),
        (
            {"tracks": DYAD["tracks"] + "s1,lapel_a,x.avi,,,\n"},
            ["tracks, row 3, track = 'lapel_a': must be unique, but row 4 has the same session_id and track"],
        ),
        (
            {"tracks": DYAD["tracks"].replace("lapel_a", "a.tmp")},
            [
                "tracks, row 3, track = 'a.tmp': no session's name ends in .json, .parquet, .lock, .tmp: the feature "
                "store's own files do"
            ],
        ),
        (
            {"tracks": DYAD["tracks"].replace(",child_b,cam_b", ",child_b,cam_a")},
            [
                "tracks, row 2, clock = 'cam_a': is not in the table 'clocks' for this session: is 'cam_b' meant? "
                "'storyframes sync' measures clocks that have no rows, by their sound",
                "clocks, row 2, clock = 'cam_b': is the clock of no track of this session: name it in the column "
                "'clock' of the table 'tracks'",
            ],
        ),
        (
            {"clocks": "session_id,clock,clock_s,session_s\ns1,cam_b,0,3\ns1,cam_b,10,13.02\n"},
            [
                "clocks, row 3, session_s = '13.02': makes the clock 'cam_b' run 1996 ppm slow since the moment "
                "before, and no device is off by more than 1000 ppm: is the moment right, and of this recording?"
            ],
        ),
        (
            {"clocks": "session_id,clock,clock_s,session_s\ns1,cam_b,10,3\ns1,cam_b,0,13\n"},
            [
                "clocks, row 2, session_s = '3.0': must increase with clock_s, but is 13.0 at clock_s = 0.0 already: a "
                "clock never runs backwards"
            ],
        ),
        (
            {"clocks": "session_id,clock,clock_s,session_s\ns1,cam_b,0,3\ns1,cam_b,0,4\n"},
            [
                "clocks, row 3, clock_s = '0.0': occurs twice for the clock 'cam_b': a clock has one session_s at each "
                "moment"
            ],
        ),
        (
            {"curves": DYAD["curves"] + "s1,stress,curves/other.csv,r2,child_b\n"},
            [
                "curves, row 2, scheme = 'stress': must be unique, but row 3 has the same session_id and rater_id and "
                "track and scheme"
            ],
        ),
    ],
)
def test_what_is_wrong_between_tables(tmp_path: Path, tables: dict[str, str | None], expected: list[str]) -> None:
    assert problems(write_study(tmp_path, **tables)) == expected


def test_clock_rows_may_come_in_any_order(tmp_path: Path) -> None:
    rows = DYAD["clocks"].splitlines()
    study = load_study(write_study(tmp_path, clocks="\n".join([rows[0], rows[2], rows[1]]) + "\n"))
    assert study.clocks["s1"]["cam_b"].clock_s == (0.0, 3600.144)


def test_everything_wrong_with_the_new_tables_is_in_one_report(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        labels=a_label(value="7", rater_id="r9"),
        schemes=DYAD["schemes"] + "act,nominal,,,,\n",
        tracks=DYAD["tracks"].replace("s1,lapel_a", "s9,lapel_a"),
        persons="session_id,person_id,participant\ns1,child_a,p1\ns1,child_b,p2\n",
        raters="rater_id,kind\nr1,alien\nr2,\n",
    )
    assert [problem.split(": ")[0] for problem in problems(study)] == [
        "schemes, row 4, scheme = 'act'",
        "raters, row 2, kind = 'alien'",
        "persons",  # participant: is participant_id meant?
        "tracks, row 3, session_id = 's9'",
        "labels, row 2, rater_id = 'r9'",
        "labels, row 2, value = '7'",
    ]


# --- what need not be there ------------------------------------------------------------------------------------------


def test_the_smallest_study_names_videos(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("video\nvideos/a.avi\nvideos/b.mp4\n")
    study = load_study(tmp_path)
    assert [(one.session_id, one.participant_id) for one in study.sessions.values()] == [("a", "a"), ("b", "b")]
    (remark,) = study.remarks
    assert not missing(remark, "and counts as a participant")
    assert (study.phases, study.labels) == ((), ())


def test_a_session_may_be_a_sound_or_a_transcript_alone(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("video,audio,transcript\nv/a.mp4,,\n,s/b.wav,t/b2.vtt\n,,t/c.vtt\n")
    study = load_study(tmp_path)
    assert list(study.sessions) == ["a", "b", "c"]
    assert not missing(study.remarks[0], "named after its video or")
    assert [one.video for one in study.sessions.values()] == ["v/a.mp4", None, None]
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,transcript\na,p,t/c.vtt\n")
    assert load_study(tmp_path).sessions["a"].transcript == "t/c.vtt"


def test_a_session_without_any_recording_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video,openface\na,p,,of.csv\nb,q,b.mp4,\n")
    (problem,) = problems(tmp_path)
    assert not missing(problem, "sessions, row 2", "video = ''")
    (tmp_path / "sessions.csv").write_text("video,openface\n,of.csv\nb.mp4,\n")  # it would have no name either
    assert problems(tmp_path) == [problem]
    (tmp_path / "sessions.csv").write_text("session_id,participant_id\na,p\n")
    assert any(not missing(one, "'video'", "the column") for one in problems(tmp_path))


def test_a_video_whose_name_is_no_id_needs_one(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_text("video\nvideos/my film.avi\nx/a.avi\ny/a.avi\n")
    first, second = problems(tmp_path)
    assert not missing(first, "sessions, row 2", "video = 'videos/my film.avi'")
    assert not missing(first, "column session_id", "name it in a")
    assert not missing(second, "sessions, row 3", "session_id = 'a'", "row 4", "session_id")


@pytest.mark.parametrize("header", ["sesion_id,video", "subject,video", "participant,video", "session_id,video"])
def test_participants_are_not_made_up_where_the_table_may_name_them(tmp_path: Path, header: str) -> None:
    (tmp_path / "sessions.csv").write_text(f"{header}\nx,a.avi\n")
    assert any("the column 'participant_id' is missing" in problem for problem in problems(tmp_path))


# --- curves ----------------------------------------------------------------------------------------------------------


def test_a_curve_is_read_with_its_gaps(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("time_s,value,frame\n0,1.5,0\n0.5,,1\n1,2,2\n")
    samples = CurveSamples.read(tmp_path / "c.csv")
    np.testing.assert_array_equal(samples.time_s, [0, 0.5, 1])
    np.testing.assert_array_equal(samples.value, [1.5, np.nan, 2])
    pd.read_csv(tmp_path / "c.csv").to_parquet(tmp_path / "c.parquet")
    np.testing.assert_array_equal(CurveSamples.read(tmp_path / "c.parquet").value, samples.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("time_s,value\n0,1\n0,2\n", "row 3, time_s: must be after the row before it, at 0 s"),
        ("time_s,value\n0,x\n", "row 2, value: must be a finite number"),
        ("time_s,value\n,1\n", "row 2, time_s: must be a finite number"),
        ("time_s,value\n0,inf\n", "row 2, value: must be a finite number"),
        ("time_s,value\n0,101\n", "row 2, value: is above the maximum 100 of the scheme 'stress'"),
        ("time_s,value\n0,-1\n", "row 2, value: is below the minimum 0 of the scheme 'stress'"),
        ("time,value\n0,1\n", "the column 'time_s' is missing"),
        ("time_s,value\n", "has no rows"),
        ("time_s,value\n0,1,2\n", "row 2 has 3 fields"),
        ("", "is empty"),
    ],
)
def test_what_is_no_curve(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.csv").write_text(content)
    with pytest.raises(CurveError, match=f"c.csv.*{message}"):
        CurveSamples.read(tmp_path / "c.csv", Scheme("stress", SchemeType.CURVE, 0.0, 100.0))


def test_check_opens_the_files_of_tracks_and_curves(study_copy: Path) -> None:
    (study_copy / "tracks.csv").write_text("session_id,track,video,audio\np01-s01,b,absent.mp4,noise.wav\n")
    (study_copy / "noise.wav").write_bytes(b"\x8f\x01\xa0" * 500)
    (study_copy / "schemes.csv").write_text("scheme,type,min,max\nstress,curve,0,1\n")
    (study_copy / "curves.csv").write_text("session_id,scheme,path\np01-s01,stress,c.csv\np01-s02,stress,d.csv\n")
    (study_copy / "c.csv").write_text("time_s,value\n0,2\n")
    found = [str(problem) for problem in check_study(study_copy, ExtractorsSettings())[1]]
    assert not unlike(
        found,
        ("tracks, row 2", "video = 'absent.mp4'"),
        ("tracks, row 2", "audio = 'noise.wav'"),
        ("curves, row 2", "path = 'c.csv'", "row 2", "'stress'"),
        ("curves, row 3", "path = 'd.csv'"),
    )


# --- whatever is in them ---------------------------------------------------------------------------------------------

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
IDS = st.from_regex(ID_PATTERN, fullmatch=True).filter(lambda name: not name.endswith("."))


@given(
    table=st.sampled_from(["labels", "schemes", "curves", "tracks", "clocks", "persons", "raters"]),
    row=st.integers(0, 4),
    cells=st.lists(st.tuples(st.integers(0, 9), st.text(st.sampled_from('s1,r|.-\\/0e "ä\n'), max_size=8)), max_size=3),
)
@example(table="schemes", row=1, cells=[(4, "0\n0")])  # labels that another table's problem names
@ANY
def test_whatever_a_cell_holds_is_a_study_or_problems(tmp_path: Path, table: str, row: int, cells) -> None:
    rows = list(csv.reader(DYAD[table].splitlines()))
    for place, cell in cells:
        at = rows[1 + row % (len(rows) - 1)]
        at[place % len(at)] = cell
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows(rows)
    write_study(tmp_path, **{table: written.getvalue()})
    reading = read_study(tmp_path)
    assert isinstance(reading.study, Study)
    assert all(str(problem).isprintable() for problem in reading.problems)


@given(
    scheme=st.builds(Scheme, st.just("x"), st.just(SchemeType.ORDINAL), st.just(0.0), st.floats(1, 1e6)),
    number=st.floats(allow_nan=True, allow_infinity=True),
)
def test_a_number_is_itself_or_refused(scheme: Scheme, number: float) -> None:
    try:
        assert scheme.read(repr(number)) == number
        assert 0 <= number <= scheme.maximum
    except ValueError:
        assert not 0 <= number <= scheme.maximum


@given(st.text(max_size=20))
def test_text_is_read_as_a_number_only_where_it_is_digits(text: str) -> None:
    try:
        value = Scheme("x", SchemeType.INTERVAL).read(text)
    except ValueError as error:
        said = str(error)
        assert not missing(said.replace(" with a decimal point", ""), "'x'", "must be a number")
    else:
        assert value == float(text)
        assert set(text) <= set("0123456789.eE+-")


@given(values=st.lists(IDS, min_size=1, max_size=6, unique=True), data=st.data())
@ANY
def test_labels_are_read_back_in_order(tmp_path: Path, values: list[str], data) -> None:
    chosen = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=8))
    rows = "".join(f"s1,act,{value},{place},{place + 1}\n" for place, value in enumerate(chosen))
    schemes = f"scheme,type,labels\nact,nominal,{'|'.join(values)}\n"
    labels = "session_id,scheme,value,start_s,end_s\n" + rows
    study = load_study(write_study(tmp_path, schemes=schemes, labels=labels, curves=None))
    assert study.schemes["act"].labels == tuple(values)
    assert [label.value for label in study.labels] == chosen


# --- what the documentation shows ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_step_of_the_documentation_is_a_study_with_clips(tmp_path: Path) -> None:
    """Every block of CSV in docs/study.md is the table that its header says, and grows the study of those before it."""
    text = (Path(__file__).parents[2] / "docs" / "study.md").read_text()
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [block.strip("\n") + "\n" for language, block in fenced if not language]
    columns = {table: {*model.model_fields} for table, model in TABLES.items()}
    columns["participants"] |= {"age"}
    steps = []
    for block in blocks:
        header = set(block.splitlines()[0].split(","))
        if not block.startswith("$") and (fitting := [table for table, known in columns.items() if header <= known]):
            steps.append((fitting[0], block))
    assert [table for table, _ in steps] == [
        *("sessions", "sessions", "phases", "participants", "persons", "schemes", "labels", "tracks", "clocks")
    ]
    for folder in ("videos", "transcripts"):
        (tmp_path / folder).mkdir()
    for name in ("anna-1", "ben-1", "anna-1-b"):
        video = write_video(tmp_path / f"videos/{name}.mp4", "mpeg4", [40 * frame for frame in range(250)])
        with video.open("ab") as file:  # an empty box, so that no recording is a copy of another
            file.write((8 + len(name)).to_bytes(4, "big") + b"free" + name.encode())
    (tmp_path / "transcripts/anna-1.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n")
    spec, clips = WindowSpec(window_s=2, stride_s=1), []
    for table, content in steps:
        (tmp_path / f"{table}.csv").write_text(content)
        study, problems = check_study(tmp_path, ExtractorsSettings())
        if table == "tracks":  # one step with the clocks
            assert [problem.kind for problem in problems] == ["unknown clock"]
            continue
        assert problems == []
        built = build_clip_index(study, spec, None, {"valence": LabelRule(within="overlap")})
        assert not built.excluded
        clips.append(len(built.clips))
    assert clips == [18, 18, 4 + 3 + 8, *[15] * 5]
    assert list(study.sessions) == ["anna-1", "ben-1"]
    assert (len(study.labels), len(study.tracks["anna-1"]), study.remarks) == (2, 2, ())
    assert study.clock("anna-1", "child_b").drifts_ppm == pytest.approx((40.0,), abs=1e-6)
    assert built.clips["valence"].notna().sum() == 3  # of the windows in the warm-up
    assert (built.clips["engaged"] == "high").sum() == 7


def test_check_says_what_a_study_holds(tmp_path: Path) -> None:
    shown = Console(width=300, record=True, file=io.StringIO())
    shown.print(study_table(load_study(write_study(tmp_path))))
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.export_text().splitlines()]
    rows = dict(line for line in cells if len(line) == 2)
    assert rows["participants"] == "3"
    assert rows["persons"] == "3"
    assert rows["labels of valence"] == "1 (interval) of 1 session, by 1 rater"
    assert rows["labels of note"] == "1 (text) of 1 session"
    assert rows["labels of stress"] == "1 (curve) of 1 session, by 1 rater"
    assert rows["tracks"] == "child_b of 1 session, lapel_a of 1 session"
    assert rows["clocks"] == "1"
    assert "laughs" not in shown.export_text()


def test_check_finds_phases_and_labels_beyond_the_end_of_their_own_recording(study_copy: Path) -> None:
    """The demo's recordings are 24 s long."""
    content = (study_copy / "videos/p01-s02.avi").read_bytes()
    (study_copy / "videos/b.avi").write_bytes(content + b"JUNK\4\0\0\0none")  # another recording, as long
    (study_copy / "tracks.csv").write_text("session_id,track,video\np01-s01,b,videos/b.avi\n")
    (study_copy / "schemes.csv").write_text("scheme,type,min,max\nvalence,interval,-1,1\n")
    spans = [(0, 24.5, ""), (0, 25.5, ""), (1, 25.5, "b"), (2, 25.5, "main"), (0, 2500, "")]
    rows = "".join(f"p01-s01,valence,0,{start},{end},{track}\n" for start, end, track in spans)
    (study_copy / "labels.csv").write_text("session_id,scheme,value,start_s,end_s,track\n" + rows)
    phases = pd.read_csv(study_copy / "phases.csv")
    phases.loc[4, "end_s"] = 24_000.0
    phases.to_csv(study_copy / "phases.csv", index=False)
    found = [str(problem) for problem in check_study(study_copy, ExtractorsSettings())[1]]
    whole = "which is 24.00 s long by its header: are these its times, in seconds?"
    assert found == [
        f"phases, row 6, end_s = '24000.0': is after the end of the recording of p01-s01, {whole}",
        *(
            f"labels, row {row}, end_s = '{spans[row - 2][1]:.1f}': is after the end of the recording of p01-s01"
            f"{', track b' * (row == 4)}, {whole}"
            for row in (3, 4, 5, 6)
        ),
    ]
