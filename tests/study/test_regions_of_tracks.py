"""Regions of tracks in a study's tables: what is read, and what is refused with its row, column and value."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.media.recordings import write_recording
from support.messages import naming
from support.studies import extract_session

from tasks.study.boxes import Boxes, BoxesError, in_words
from tasks.study.load import load_study, read_study
from tasks.study.rows import Track, fixed_box

PAGE = Path(__file__).parents[2] / "docs/two-people.md"
CAMERA = "s,camera,,,cam.avi,c\n"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "sessions.csv").write_text(
        "session_id,participant_id,video,audio\ns,p,wide.avi,\nsound,q,,voice.wav\nt,r,t.avi,\n"
    )
    (tmp_path / "clocks.csv").write_text("session_id,clock,clock_s,session_s\ns,c,0,1.5\n")
    return tmp_path


def write_tracks(study: Path, rows: str) -> Path:
    (study / "tracks.csv").write_text("session_id,track,of,region,video,clock\n" + rows)
    return study


def problems(study: Path, rows: str) -> list[str]:
    return [str(problem) for problem in read_study(write_tracks(study, CAMERA + rows)).problems]


def test_a_region_has_the_video_and_the_clock_of_the_track_that_it_is_cut_from(study: Path) -> None:
    rows = f's,left,,"0,0,0.5,1",,\ns,right,main,boxes/right.csv,,\n{CAMERA}s,face,camera,"0.1, 0.2, 0.3, 0.4",,\n'
    tracks = load_study(write_tracks(study, rows)).tracks["s"]
    assert tracks["left"] == Track("s", "left", video="wide.avi", of="main", region="0,0,0.5,1")
    assert tracks["right"] == Track("s", "right", video="wide.avi", of="main", region="boxes/right.csv")
    assert (tracks["left"].box_file, tracks["right"].box_file) == (None, "boxes/right.csv")
    assert tracks["face"] == Track("s", "face", video="cam.avi", clock="c", of="camera", region="0.1, 0.2, 0.3, 0.4")
    assert fixed_box("0.1, 0.2, 0.3, 0.4") == (0.1, 0.2, 0.3, 0.4)
    third = 0.3333333
    assert fixed_box(f"{2 * third},0,{third + 1e-7},1")[0] == 2 * third  # rounded thirds are inside the picture


def test_the_tables_of_the_page_are_a_study_that_is_extracted(tmp_path: Path) -> None:
    """Both examples of ``tracks``, with the table of persons that the page shows."""
    tables = re.findall(r"^```\n(session_id,.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (persons,) = (table for table in tables if table.startswith("session_id,person_id"))
    examples = [table for table in tables if table.startswith("session_id,track")]
    assert len(examples) == 2
    for number, tracks in enumerate(examples):
        study = tmp_path / str(number)
        study.mkdir()
        write_recording(study / "wide.avi", 3)
        (study / "sessions.csv").write_text("session_id,participant_id,video\nanna-1,anna,wide.avi\n")
        (study / "persons.csv").write_text(persons)
        (study / "tracks.csv").write_text(tracks)
        _, outcomes = extract_session(study, tmp_path / f"store{number}", "frames", session_id="anna-1")
        assert outcomes["frames"].status == "done"
        assert {track.person_id for track in load_study(study).tracks["anna-1"].values()} >= {"anna", "interviewer"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('s,x,camrea,"0,0,1,1",,', "tracks, row 3, of = 'camrea': is no track of this session: is 'camera' meant?"),
        ('s,x,x,"0,0,1,1",,', "tracks, row 3, of = 'x': is a region itself: name the track that has the video"),
        (
            's,y,,"0,0,1,1",,\ns,x,y,"0,0,1,1",,',
            "tracks, row 4, of = 'y': is a region itself: name the track that has the video",
        ),
        (
            "s,x,camera,,,",
            "tracks, row 3, of = 'camera': is the track that this one is a region of, but",
        ),
        (
            's,x,camera,"0,0,1,1",own.avi,',
            "tracks, row 3, video = 'own.avi': a region has the pictures",
        ),
        ('s,x,camera,"0,0,1,1",,c', "tracks, row 3, clock = 'c': a region has the clock of the track in"),
        ('sound,x,,"0,0,1,1",,', "tracks, row 3, region = '0,0,1,1': is of the track 'main', which has no video"),
        ('s,x,,"0.6,0,0.5,1",,', "tracks, row 3, region = '0.6,0,0.5,1': x,y,w,h are fractions of the picture, 0 to 1"),
        ('s,x,,"0,0,0,1",,', "tracks, row 3, region = '0,0,0,1': x,y,w,h are fractions of the picture"),
        ('s,x,,"-0.1,0,1,1",,', "tracks, row 3, region = '-0.1,0,1,1': x,y,w,h are fractions of the picture"),
        ('s,x,,"0,0,nan,1",,', "tracks, row 3, region = '0,0,nan,1': x,y,w,h are fractions of the picture"),
        (
            's,x,,"0,0,640",,',
            "tracks, row 3, region = '0,0,640': a region is x,y,w,h, fractions of the upright",
        ),
        ("s,x,,../boxes.csv,,", "tracks, row 3, region = '../boxes.csv': a path is relative to the study folder"),
    ],
)
def test_what_is_no_region_is_refused(study: Path, row: str, said: str) -> None:
    (problem,) = problems(study, row + "\n")
    assert problem.startswith(said), problem


def write_boxes(path: Path, *rows: str, columns: str = "time_s,x,y,w,h,doubtful") -> Path:
    path.write_text("\n".join([columns, *rows]) + "\n")
    return path


def test_boxes_between_and_beside_the_rows(tmp_path: Path) -> None:
    rows = ("1,0,0,0.5,1,", "2,0.4,0.2,0.3,0.8,", "3,,,,,", "4,0.1,0.1,0.2,0.2,true", "4.5,0.1,0.1,0.2,0.2,")
    boxes = Boxes.read(write_boxes(tmp_path / "b.csv", *rows))
    time_s = np.array([0.9, 0.97, 1.0, 1.25, 2.0, 2.9, 3.0, 3.99, 4.0, 4.5, 4.53, 4.6])
    expected = np.full((12, 4), np.nan)
    expected[[1, 2]] = 0, 0, 0.5, 1
    expected[3] = 0.1, 0.05, 0.45, 0.95
    expected[[4, 5]] = 0.4, 0.2, 0.3, 0.8
    expected[[8, 9, 10]] = 0.1, 0.1, 0.2, 0.2
    np.testing.assert_allclose(boxes.at(time_s, 0.04), expected)
    assert boxes.doubtful_s == [(4.0, 4.5)]
    pd.read_csv(tmp_path / "b.csv").to_parquet(tmp_path / "b.parquet")
    again = Boxes.read(tmp_path / "b.parquet")
    np.testing.assert_array_equal(again.box, boxes.box)
    np.testing.assert_array_equal(again.doubtful, boxes.doubtful)


def test_doubtful_stretches_are_from_row_to_row(tmp_path: Path) -> None:
    rows = [f"{second},0,0,1,1,{doubt}" for second, doubt in enumerate(("yes", "1", "0", "", "true"))]
    boxes = Boxes.read(write_boxes(tmp_path / "b.csv", *rows))
    assert boxes.doubtful_s == [(0.0, 2.0), (4.0, 4.0)]
    assert in_words(boxes.doubtful_s) == "0.00 to 2.00 s, 4.00 s"
    assert in_words([(0, 1)] * 7).endswith(" and 2 more")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (("1,0,0,1,1,", "1,0,0,1,1,"), "b.csv: row 3, time_s = 1: must be after the row before it, at 1 s"),
        (("1,0,,1,1,",), "b.csv: row 2, y: must be a finite number, with a decimal point; of a row without a box"),
        (("1,0,inf,1,1,",), "b.csv: row 2, y: must be a finite number"),
        (("1,0,0,0,1,",), "b.csv: row 2, w = 0: must be above 0, a fraction of the picture's side, not pixels"),
        (("1,0,0,320,240,",), "b.csv: row 2, w = 320: must be above 0, a fraction of the picture's side, not pixels"),
        (("1,300,0,1,1,",), "b.csv: row 2, x = 300: must be a fraction of the picture's side, not pixels"),
        (("1,0,0,1,1,maybe",), "b.csv: row 2, doubtful: must be true or false"),
        ((), "b.csv: has no rows"),
    ],
)
def test_a_table_that_has_no_boxes_is_refused(tmp_path: Path, rows: tuple[str, ...], said: str) -> None:
    with pytest.raises(BoxesError) as refused:
        Boxes.read(write_boxes(tmp_path / "b.csv", *rows))
    assert str(refused.value).startswith(said)


def test_a_column_that_is_missing_is_refused_and_one_of_another_kind_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(BoxesError, match=naming("b.csv", "'h'", "time_s")):
        Boxes.read(write_boxes(tmp_path / "b.csv", "1,0,0,1", columns="time_s,x,y,w"))
    boxes = Boxes.read(write_boxes(tmp_path / "b.csv", "1,0,0,1,1,sure", columns="time_s,x,y,w,h,confidence"))
    assert boxes.box.tolist() == [[0, 0, 1, 1]]
