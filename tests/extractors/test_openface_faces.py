"""OpenFace's output of several faces: whose rows are whose, and where nobody's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storyframes.features import OPENFACE_COLUMNS
from tasks.extractors.openface.csv_output import OpenFaceOutputError
from tasks.extractors.openface.several_faces import PersonsFace, count_faces

FRAMES = 40
TIME = np.arange(FRAMES) / 25
X = OPENFACE_COLUMNS.index("x_0")
AU = OPENFACE_COLUMNS.index("AU12_r")
Row = tuple[int, int, float, float]  # frame, face_id, x of the face's middle, AU12_r


def write_faces(path: Path, rows: list[Row], **cells: float) -> Path:
    """A CSV of faces 40 pixels wide at y = 100."""
    lines = [", ".join(OPENFACE_COLUMNS)]
    for frame, face_id, x, number in rows:
        row: dict[str, float] = dict.fromkeys(OPENFACE_COLUMNS, 0)
        row |= {f"x_{point}": x + 40 * (point / 67 - 0.5) for point in range(68)}
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
    ],
)
def test_what_no_run_of_this_video_writes_is_refused(
    tmp_path: Path, rows: list[Row], cells: dict[str, float], message: str
) -> None:
    path = write_faces(tmp_path / "wrong.csv", rows, **cells)
    with pytest.raises(OpenFaceOutputError, match=message):
        list(PersonsFace(path, TIME, in_left).blocks())
