"""OpenFace's output of several faces: whose rows are whose, and where nobody's."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from support.media.recordings import write_recording
from support.messages import missing
from support.studies import run

from storyframes.features import OPENFACE_COLUMNS
from storyframes.store.feature_store import FeatureStore
from tasks.extractors.openface.csv_output import OpenFaceOutputError
from tasks.extractors.openface.several_faces import PersonsFace, count_faces
from tasks.extractors.registry import ExtractorsSettings
from tasks.inspect.study_check import check_study
from tasks.planning.rates import measure_rates
from tasks.planning.selection import Selection
from tasks.study.load import load_study

FRAMES = 40
TIME = np.arange(FRAMES) / 25
X = OPENFACE_COLUMNS.index("x_0")
AU = OPENFACE_COLUMNS.index("AU12_r")
Row = tuple[int, int, float, float]  # frame, face_id, x of the face's middle, AU12_r


def write_faces(
    path: Path, rows: list[Row], widths: Mapping[int, float] = MappingProxyType({}), **cells: float
) -> Path:
    """A CSV of faces at y = 100, 40 pixels wide or, by their frame, as ``widths`` says."""
    lines = [", ".join(OPENFACE_COLUMNS)]
    for frame, face_id, x, number in rows:
        row: dict[str, float] = dict.fromkeys(OPENFACE_COLUMNS, 0)
        row |= {f"x_{point}": x + widths.get(frame, 40) * (point / 67 - 0.5) for point in range(68)}
        row |= {f"y_{point}": 100 for point in range(68)} | {"AU12_r": number}
        row |= {"frame": frame, "face_id": face_id, "timestamp": round((frame - 1) / 25, 3)}
        row |= {"confidence": 0.9, "success": 1, **cells}
        lines.append(", ".join(f"{row[column]:g}" for column in OPENFACE_COLUMNS))
    path.write_text("\n".join(lines) + "\n")
    return path


def in_left(frames: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x < 320


def in_right(frames: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x >= 320


def two_people() -> list[Row]:
    """Left until frame 30, right from frame 11 on, whose trackers are swapped in the middle."""
    rows: list[Row] = []
    for frame in range(1, FRAMES + 1):
        ids = (0, 1) if frame <= 20 else (1, 0)
        faces = [(frame, ids[0], 100.0 + frame, 1.0)] if frame <= 30 else []
        faces += [(frame, ids[1], 500.0 - frame, 4.0)] if frame > 10 else []
        rows += sorted(faces)
    return rows


@pytest.mark.parametrize("block_bytes", [8 << 20, 9000])
def test_a_person_is_a_place_whatever_the_ids_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("tasks.extractors.openface.csv_output._BLOCK_BYTES", block_bytes)
    path = write_faces(tmp_path / "two.csv", two_people())
    left, right = PersonsFace(path, TIME, in_left), PersonsFace(path, TIME, in_right)
    of_left, of_right = np.concatenate(list(left.blocks())), np.concatenate(list(right.blocks()))
    frame = np.arange(1, FRAMES + 1)
    for rows in (of_left, of_right):
        np.testing.assert_array_equal(rows[:, 0], frame)
        np.testing.assert_allclose(rows[:, 2], TIME, atol=1e-3)
    np.testing.assert_array_equal(of_left[:, 4], frame <= 30)
    np.testing.assert_array_equal(of_right[:, 4], frame > 10)
    np.testing.assert_array_equal(of_left[:30, AU], 1)
    np.testing.assert_array_equal(of_right[10:, AU], 4)
    np.testing.assert_allclose(of_left[:30, X], 100 + frame[:30] - 20, atol=1e-3)
    assert np.isnan(of_left[30:, 5:]).all()
    assert np.isnan(of_right[:10, 5:]).all()
    assert (left.ambiguous, left.jumps_s) == (0, [])
    assert left.faces == {0: 20 + 20, 1: 10 + 10}
    assert count_faces(path) == pytest.approx({0: 40 / 25, 1: 20 / 25})


def test_where_two_faces_are_in_one_region_none_is_taken(tmp_path: Path) -> None:
    rows = sorted(two_people() + [(frame, 2, 250.0, 3.0) for frame in range(5, 9)])
    face = PersonsFace(write_faces(tmp_path / "three.csv", rows), TIME, in_left)
    read = np.concatenate(list(face.blocks()))
    assert face.ambiguous == 4
    np.testing.assert_array_equal(np.flatnonzero(read[:30, 4] == 0), [4, 5, 6, 7])
    assert np.isnan(read[4:8, AU]).all()


def test_a_face_that_jumps_may_be_another_one_s(tmp_path: Path) -> None:
    rows = [(frame, frame > 25, x + (60 if frame > 25 else 0), value) for frame, _, x, value in two_people()]
    face = PersonsFace(write_faces(tmp_path / "jump.csv", rows), TIME, in_left)
    list(face.blocks())
    assert face.jumps_s == [(pytest.approx(24 / 25), pytest.approx(25 / 25))]


@pytest.mark.parametrize(
    ("rows", "cells", "message"),
    [
        ([(1, 0, 90.0, 1.0), (41, 1, 90.0, 1.0)], {}, r"row 3 has frame = 41, and 40 frames of the video decode"),
        ([(3, 0, 90.0, 1.0), (2, 1, 90.0, 1.0)], {}, r"row 3 has frame = 2, after a later frame"),
        (two_people(), {"confidence": 1.5}, r"row 2 has confidence = 1.5, and confidences are 0 to 1"),
        (two_people(), {"success": 2}, r"row 2 has success = 2, expected 0 or 1"),
        (two_people(), {"timestamp": 99}, r"row 2 has timestamp = 99, and OpenFace counts"),
        ([(1, 0, 500.0, 1.0), (1, 1, 400.0, 1.0)], {}, r"no face of it is in this track's region, in any frame"),
        ([(1, 0, 90.0, 1.0), (2, 0, 90.0, 1.0)], {}, r"has 2 rows, but 40 frames of the video decode"),
        ([(1, 0, 90.0, 1.0), (1, 0, 90.0, 1.0), (2, 0, 90.0, 1.0)], {}, r"row 3 has frame = 1, expected 2"),
    ],
)
def test_what_no_run_of_this_video_writes_is_refused(
    tmp_path: Path, rows: list[Row], cells: dict[str, float], message: str
) -> None:
    path = write_faces(tmp_path / "wrong.csv", rows, **cells)
    with pytest.raises(OpenFaceOutputError, match=message):
        list(PersonsFace(path, TIME, in_left).blocks())


def write_study(root: Path, tracks: str, openface: str = "") -> Path:
    """A session of 40 frames of 64 x 48 pixels, with the faces of two people, one in each half."""
    root.mkdir()
    write_recording(root / "room.mkv", FRAMES)
    rows = [(frame, face_id, x / 10, value) for frame, face_id, x, value in two_people()]
    write_faces(root / "faces.csv", rows, **{f"y_{point}": 20 for point in range(68)})
    (root / "sessions.csv").write_text(f"session_id,participant_id,video,openface\ns,p,room.mkv,{openface}\n")
    (root / "tracks.csv").write_text("session_id,track,region,openface\n" + tracks)
    return root


BOTH = 's,left,"0,0,0.5,1",faces.csv\ns,right,"0.5,0,0.5,1",faces.csv\n'


def test_each_region_has_its_own_face_and_another_region_another_one(tmp_path: Path) -> None:
    study, store = write_study(tmp_path / "study", BOTH), tmp_path / "features"
    outcomes = run(study, store, Selection(only=("openface",)))
    for track, number in (("left", 1), ("right", 4)):
        outcome = outcomes[f"s/openface@{track}"]
        assert outcome.caveats == ("action units that are not adjusted to the person",), outcome
        rows, valid = (FeatureStore(store).read("s", f"openface@{track}", array=name) for name in ("values", "valid"))
        np.testing.assert_array_equal(rows[valid == 1, AU], number)
        assert valid.sum() == 30
        assert np.isnan(rows[valid == 0, AU]).all()
    (study / "tracks.csv").write_text((study / "tracks.csv").read_text().replace('"0,0,0.5,1"', '"0.5,0,0.5,1"'))
    again = run(study, store, Selection(only=("openface",)))
    assert not again["s/openface@left"].skipped
    assert again["s/openface@right"].skipped
    np.testing.assert_array_equal(
        FeatureStore(store).read("s", "openface@left"), FeatureStore(store).read("s", "openface@right")
    )


def test_boxes_over_time_take_no_face_where_nobody_is_seen_and_tell_their_doubts(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", "s,left,boxes.csv,faces.csv\n")
    (study / "boxes.csv").write_text(
        "time_s,x,y,w,h,doubtful\n0,0,0,0.5,1,\n0.4,,,,,\n0.8,0,0,0.5,1,true\n1.2,0,0,0.5,1,\n"
    )
    outcome = run(study, tmp_path / "features", Selection(only=("openface",)))["s/openface@left"]
    assert any("stretches" in caveat for caveat in outcome.caveats)
    store = FeatureStore(tmp_path / "features")
    valid = store.read("s", "openface@left", array="valid")
    assert valid[:10].all()
    assert not valid[10:20].any()
    assert valid[20:30].all()
    assert store.attributes("s", "openface@left")["doubtful_s"] == [[0.8, 1.2]]


@pytest.mark.parametrize("region", ["", '"0,0,0.5,1"'])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_one_face_that_the_tool_lost_is_one_person_with_masked_frames(tmp_path: Path, region: str, suffix: str) -> None:
    """FaceLandmarkVidMulti writes no row where it sees nobody: of a session, and of a region of it."""
    study = write_study(tmp_path / "study", f"s,left,{region},faces{suffix}\n" if region else "", f"faces{suffix}")
    seen = np.isin(np.arange(1, FRAMES + 1), [*range(1, 13), *range(20, 36)])
    rows = [(frame, 0, 10.0, frame / 10) for frame in (np.flatnonzero(seen) + 1).tolist()]
    written = write_faces(study / "faces.csv", rows, **{f"y_{point}": 20 for point in range(68)})
    (study / "faces.csv.gz").write_bytes(gzip.compress(written.read_bytes()))
    checked, problems = check_study(study, ExtractorsSettings())
    assert problems == []
    if not region:
        assert checked.remarks == (
            f"faces{suffix}: one face, as FaceLandmarkVidMulti writes it: frames without a row are masked",
        )
    of, features = ("openface@left" if region else "openface"), tmp_path / "features"
    outcome = run(study, features, Selection(only=("openface",), tracks=("left" if region else "main",)))[f"s/{of}"]
    assert outcome.caveats == ("action units that are not adjusted to the person",), outcome
    values, valid = (FeatureStore(features).read("s", of, array=name) for name in ("values", "valid"))
    np.testing.assert_array_equal(valid, seen)
    np.testing.assert_allclose(values[seen, AU], (np.flatnonzero(seen) + 1) / 10, rtol=1e-6)
    assert np.isnan(values[~seen, AU]).all()
    only_openface = ExtractorsSettings(features=("openface",))
    *_, rate = measure_rates(load_study(study), "s", only_openface, 1.0, lambda *_: None)
    assert (rate.feature, rate.reason) == ("openface", "")


def test_check_names_a_table_of_a_video_that_was_replaced(tmp_path: Path) -> None:
    """It has as many rows as the new video has frames, at another rate; or its file is older than the video's."""
    study = write_study(tmp_path / "study", "", "faces.csv")
    table = write_faces(study / "faces.csv", [(frame, 0, 10.0, 1.0) for frame in range(1, FRAMES + 1)])

    def remarks() -> tuple[str, ...]:
        return check_study(study, ExtractorsSettings())[0].remarks

    os.utime(table, (1e9, 1e9))
    os.utime(study / "room.mkv", (1e9 + 3500, 1e9 + 3500))
    assert remarks() == ()
    os.utime(study / "room.mkv", (1e9 + 7200, 1e9 + 7200))
    (older,) = remarks()
    assert missing(older, "faces.csv", "2.0 h older", "video", "OpenFace") == []
    header, *rows = table.read_text().splitlines()
    cells = [row.split(", ") for row in rows]
    for row in cells:
        row[2] = f"{float(row[2]) * 25 / 30:.3f}"
    content = "\n".join([header, *map(", ".join, cells)]) + "\n"
    for name, written in (("faces.csv", content.encode()), ("faces.csv.gz", gzip.compress(content.encode()))):
        (study / name).write_bytes(written)
        (study / "sessions.csv").write_text(f"session_id,participant_id,video,openface\ns,p,room.mkv,{name}\n")
        (other,) = remarks()
        assert missing(other, name, f"frame {FRAMES}", "1.30 s", "1.56 s", "OpenFace") == []


def test_check_says_whose_faces_there_are_and_what_to_write(tmp_path: Path) -> None:
    study, problems = check_study(write_study(tmp_path / "study", BOTH), ExtractorsSettings())
    assert not problems
    assert missing(study.remarks[0], "0 in", "1.6 s", "1 in", "0.8 s", "face_id") == []
    _, problems = check_study(write_study(tmp_path / "whole", BOTH, "faces.csv"), ExtractorsSettings())
    (problem,) = problems
    assert problem.table == "sessions"
    assert missing(problem.rule, "0 in", "1.6 s", "1 in", "0.8 s", "face_id") == []
    assert missing(problem.rule, "person", "tracks") == []


@pytest.mark.parametrize(("back", "jumps"), [(22, 1), (24, 0)])  # after 0.48 s, and after 0.56 s
def test_after_half_a_second_out_of_sight_a_face_may_be_anywhere(tmp_path: Path, back: int, jumps: int) -> None:
    rows = [(frame, frame % 2, 100.0 if frame <= 10 else 160.0, 1.0) for frame in (*range(1, 11), *range(back, 37))]
    face = PersonsFace(write_faces(tmp_path / "gap.csv", rows), TIME, in_left)
    list(face.blocks())
    assert len(face.jumps_s) == jumps


@pytest.mark.parametrize(("moved", "jumps"), [(38.0, 0), (42.0, 1)])
def test_a_face_jumps_by_more_than_its_width(tmp_path: Path, moved: float, jumps: int) -> None:
    rows = [(frame, frame % 2, 100.0 if frame <= 20 else 100.0 + moved, 1.0) for frame in range(1, 37)]
    face = PersonsFace(write_faces(tmp_path / "near.csv", rows), TIME, in_left)
    list(face.blocks())
    assert len(face.jumps_s) == jumps


@pytest.mark.parametrize("widths", [(40, 100), (100, 40)])
def test_a_face_jumps_by_the_width_of_the_narrower_of_two(tmp_path: Path, widths: tuple[int, int]) -> None:
    rows = [(frame, frame % 2, 100.0 if frame <= 20 else 160.0, 1.0) for frame in range(1, 37)]
    by_frame = {frame: float(widths[frame > 20]) for frame in range(1, 37)}
    face = PersonsFace(write_faces(tmp_path / "wide.csv", rows, by_frame), TIME, in_left)
    list(face.blocks())
    assert face.jumps_s == [(pytest.approx(19 / 25), pytest.approx(20 / 25))]
