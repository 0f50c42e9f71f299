"""A person's boxes: smooth without delay, with margins, inside the picture, and nobody where nobody is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storyframes_people.attribution import Person
from storyframes_people.boxes import RULES, csv_of, region, regions_of, smoothed
from storyframes_people.detections import LOOK_SIZE
from storyframes_people.pieces import Piece
from tasks.study.boxes import Boxes

SIZE = (640, 360)


def piece(time: np.ndarray, x: np.ndarray, y: float = 180, side: float = 60, doubtful: tuple[int, ...] = ()) -> Piece:
    box = np.column_stack([x - side / 2, np.full_like(x, y - side / 2), np.full((len(x), 2), side)])
    flags = np.isin(np.arange(len(time)), doubtful)
    return Piece(time, box, np.ones((len(time), LOOK_SIZE), np.float32), flags)


def test_a_face_that_moves_evenly_stays_where_it_is_from_the_first_to_the_last_detection() -> None:
    time = np.arange(0, 3, 0.1)
    moving = piece(time, 100 + 80 * time)
    np.testing.assert_allclose(smoothed(moving), moving.box, atol=1e-6)


def test_noise_is_smoothed_and_uneven_times_are_no_harm() -> None:
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 20, 200))
    true = 300 + 40 * np.sin(time / 2)
    noisy = piece(time, true + rng.normal(0, 3, 200))
    error = smoothed(noisy)[:, 0] + 30 - true
    assert np.std(error) < 1.8
    assert abs(np.mean(error)) < 0.5


def test_two_pieces_are_smoothed_by_themselves_with_nobody_between_them() -> None:
    first, second = piece(np.arange(0, 1, 0.1), np.full(10, 200.0)), piece(np.arange(3, 4, 0.1), np.full(10, 400.0))
    boxes = region(Person("ada", (first, second)), SIZE, 0.04, margin=0)
    assert (np.diff(boxes.time_s) > 0).all()
    assert len(boxes.time_s) == 22
    assert boxes.time_s[~boxes.seen].round(3).tolist() == [0.92, 3.92]
    np.testing.assert_allclose(boxes.box[:10, 0], 170 / 640, atol=1e-5)
    np.testing.assert_allclose(boxes.box[11:-1, 0], 370 / 640, atol=1e-5)


def test_a_box_is_in_no_frame_before_the_first_detection_and_after_the_last() -> None:
    """It was held for one frame more, in which a scene that was cut to or from does not show the face."""
    time = np.arange(1, 2.01, 0.08)
    boxes = region(Person("ada", (piece(time, np.full(len(time), 200.0)),)), SIZE, 0.04)
    frames = np.arange(0, 3, 0.04)
    shown = frames[~np.isnan(boxes.at(frames, 0.04)[:, 0])]
    assert shown[[0, -1]].round(2).tolist() == [1.0, 1.96]


def test_margins_are_on_each_side_and_a_box_is_moved_into_the_picture() -> None:
    still = piece(np.arange(0, 1, 0.1), np.full(10, 320.0))
    in_corner = piece(still.time, np.full(10, 20.0), y=350)
    for face, left, top in ((still, 260, 120), (in_corner, 0, 240)):
        boxes = region(Person("ada", (face,)), SIZE, 0.04, margin=0.5).box[:-1]
        expected = [left / 640, top / 360, 120 / 640, 120 / 360]
        np.testing.assert_allclose(boxes, np.tile(expected, (10, 1)), atol=1e-5)


def test_doubtful_detections_end_where_the_next_piece_begins() -> None:
    first = piece(np.arange(0, 2, 0.1), np.full(20, 200.0), doubtful=(17, 18, 19))
    second = piece(np.arange(1.8, 3, 0.1), np.full(12, 210.0))
    boxes = region(Person("ada", (first, second)), SIZE, 0.04)
    assert np.diff(boxes.time_s).min() > 0
    assert boxes.time_s[boxes.doubtful].round(3).tolist() == [1.7]


def test_the_doubt_of_the_last_detection_is_for_all_frames_in_which_it_holds() -> None:
    """The last frames of a track that is doubtful as a whole had no doubt: its stretch ended with the last row."""
    time = np.arange(0, 2, 0.12)
    boxes = regions_of([Person("ada", (piece(time, np.full(17, 200.0), doubtful=tuple(range(17))),))], SIZE, 0.04)[
        "ada"
    ]
    ((start, end),) = boxes.doubtful_s
    frames = np.arange(0, 3, 0.04)
    shown = ~np.isnan(boxes.at(frames, 0.04)[:, 0])
    assert shown.sum() == 49  # to 1.92 s
    np.testing.assert_array_equal(shown, (frames >= start) & (frames < end))


def test_regions_that_overlap_by_more_than_half_end_between_the_faces_and_are_doubtful_where_faces_overlap_so() -> None:
    """A tool may take the neighbour's face there, however sure it is whose box it is."""
    time = np.arange(0, 1.35, 0.1)
    ada, ben = piece(time, 200 + 100 * time), piece(time, np.full(14, 340.0))  # faces of 60 pixels, regions of 108
    alone = {name: region(Person(name, (seen,)), SIZE, 0.04) for name, seen in (("ada", ada), ("ben", ben))}
    regions = regions_of([Person("ada", (ada,)), Person("ben", (ben,))], SIZE, 0.04)
    apart = 140 - 100 * time
    near = apart < 54
    last = np.where(near, np.maximum(200 + 100 * time + 30, 170 + 50 * time + 85), 200 + 100 * time + 54)
    first = np.where(near, np.minimum(310.0, (200 + 100 * time + 30 + 310) / 2), 286)
    np.testing.assert_allclose(regions["ada"].box[:-1, [0, 2]].sum(axis=1) * 640, last, atol=0.02)
    np.testing.assert_allclose(regions["ben"].box[:-1, 0] * 640, first, atol=0.02)
    for name in regions:
        np.testing.assert_array_equal(regions[name].box[:, [1, 3]], alone[name].box[:, [1, 3]])
        assert time[regions[name].doubtful[:-1]].round(1).tolist() == [
            1.2,
            1.3,
        ]  # 10 pixels apart, and from the row before


def test_a_piece_that_begins_less_than_half_a_frame_after_another_begins_after_its_end() -> None:
    """Frames of a call come at uneven times: rows that are not in order were written, which no study can read."""
    before, after = (
        piece(np.arange(0, 1, 0.04), np.full(25, 200.0)),
        piece(0.97 + np.arange(0, 1, 0.04), np.full(25, 200.0)),
    )
    boxes = region(Person("ada", (before, after)), SIZE, 0.04)
    assert (np.diff(boxes.time_s) > 0).all()
    assert boxes.seen.sum() == 50


def test_a_row_for_each_frame_is_doubtful_by_itself() -> None:
    time = np.arange(0, 1, 0.04)
    boxes = regions_of([Person("ada", (piece(time, np.full(25, 200.0), doubtful=(9,)),))], SIZE, 0.04)["ada"]
    assert np.flatnonzero(boxes.doubtful).tolist() == [9]


def test_the_file_is_a_table_of_boxes_with_words_for_doubt(tmp_path: Path) -> None:
    first, second = (
        piece(np.arange(0, 1, 0.5), np.full(2, 200.0), doubtful=(1,)),
        piece(np.arange(3, 4, 0.5), np.full(2, 9.0)),
    )
    boxes = region(Person("ada", (first, second)), SIZE, 0.04)
    path = tmp_path / "boxes.csv"
    path.write_bytes(csv_of(boxes))
    lines = path.read_text().splitlines()
    assert lines[0] == "time_s,x,y,w,h,doubtful,rules"
    assert lines[2].endswith(f",true,{RULES}")
    assert lines[3] == f"0.52,,,,,false,{RULES}"
    read = Boxes.read(path)
    for name in ("time_s", "box", "doubtful"):
        np.testing.assert_array_equal(getattr(read, name), getattr(boxes, name), err_msg=name)
