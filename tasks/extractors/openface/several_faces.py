"""One person's rows of OpenFace's output of several faces, as FaceLandmarkVidMulti writes it.

Its ``face_id`` numbers the tool's trackers, not people: a tracker that loses its face takes the next one that it finds.
So a track is a region of the picture: the face inside the region belongs to the person. Where two faces
are in it, none is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from storyframes.features import OPENFACE_COLUMNS
from tasks.extractors.openface.csv_output import (
    CONFIDENCE,
    FACE_ID,
    FRAME,
    NEAR_S,
    SUCCESS,
    TIMESTAMP,
    TOP_ROW,
    OpenFaceOutputError,
    X,
    Y,
    csv_blocks,
    last_frame_and_rows,
    read_openface_csv,
)

_SAME_PLACE_S = 0.5  # after a longer gap a face may be anywhere in its region


def count_faces(path: Path) -> dict[int, float]:
    """By ``face_id``, in how many seconds of the recording the output has a row of it.

    Raises:
        OpenFaceOutputError: the file is damaged.
    """
    rows: Counter[int] = Counter()
    last_frame, last_s = 1.0, 0.0
    for block in csv_blocks(path):
        rows.update(block[:, FACE_ID].astype(int).tolist())
        last_frame, last_s = float(block[-1, FRAME]), float(block[-1, TIMESTAMP])
    step_s = last_s / max(last_frame - 1, 1)
    return {face: count * step_s for face, count in sorted(rows.items())}


def has_several_faces(path: Path) -> bool:
    """Whether the beginning of the output has several ``face_id``s; a second person may come later.

    Raises:
        OpenFaceOutputError: the file is damaged.
    """
    first = next(csv_blocks(path), None)
    return first is not None and len(np.unique(first[:, FACE_ID])) > 1


def is_of_one_lost_face(path: Path) -> bool:
    """Whether it is FaceLandmarkVidMulti's output of one face, which has no row for frames in which it was not seen.

    Raises:
        OpenFaceOutputError: the file is damaged.
    """
    last, rows = last_frame_and_rows(path)
    return rows < last.frame and len(count_faces(path)) == 1


def checked_blocks(path: Path, time: np.ndarray) -> Iterator[np.ndarray]:
    """All rows of the output in blocks, (n, 714) float32, as they are, checked against the video.

    Args:
        time: (T,) seconds at which the video's frames are shown.

    Raises:
        OpenFaceOutputError: the file is damaged or of another video.
    """
    checked, frame_before = 0, 1.0
    for block in csv_blocks(path):
        _check(path, time, block, checked, frame_before)
        checked, frame_before = checked + len(block), float(block[-1, FRAME])
        yield block


def face_boxes(path: Path, time: np.ndarray) -> np.ndarray:
    """The faces that are tracked, whatever their ``face_id``.

    Args:
        time: see :func:`checked_blocks`.

    Returns:
        (k, 6) float64, by frame: number of the frame, from 0; left, top, width and height of all landmarks, in pixels
        of the picture that the tool saw; confidence, 0 to 1.

    Raises:
        OpenFaceOutputError: the file is damaged or of another video.
    """
    boxes = [np.empty((0, 6))]
    for block in checked_blocks(path, time):
        rows = block[block[:, SUCCESS] == 1].astype(np.float64)
        x, y = rows[:, X], rows[:, Y]
        box = (x.min(axis=1), y.min(axis=1), np.ptp(x, axis=1), np.ptp(y, axis=1))
        boxes.append(np.column_stack([rows[:, FRAME] - 1, *box, rows[:, CONFIDENCE]]))
    return np.concatenate(boxes)


def _check(path: Path, time: np.ndarray, block: np.ndarray, checked: int, frame_before: float) -> None:
    frame, timestamp = block[:, FRAME], block[:, TIMESTAMP]

    def refuse(wrong: np.ndarray, column: int, rule: str) -> None:
        for row in np.flatnonzero(wrong)[:1]:
            raise OpenFaceOutputError(
                f"{path.name}: row {checked + row + TOP_ROW} has {OPENFACE_COLUMNS[column]} = "
                f"{block[row, column]:g}, {rule}"
            )

    last = len(time)
    is_frame = (frame >= 1) & (frame <= last) & (frame == np.rint(frame))
    refuse(~is_frame, FRAME, f"and {last} frames of the video decode: it is another video's output, or damaged")
    refuse(np.diff(frame, prepend=frame_before) < 0, FRAME, "after a later frame: the rows are in another order")
    refuse(~np.isin(block[:, SUCCESS], (0, 1)), SUCCESS, "expected 0 or 1")
    confidence = block[:, CONFIDENCE]
    refuse(~((confidence >= 0) & (confidence <= 1)), CONFIDENCE, "and confidences are 0 to 1")
    counted = frame - 1
    step_s = float(np.nanmedian(timestamp[counted > 0] / counted[counted > 0])) if (counted > 0).any() else 0.0
    is_counted = np.abs(timestamp - counted * step_s) <= step_s / 2
    is_near = np.abs(timestamp - time[counted.astype(int)]) <= NEAR_S
    refuse(~(is_near | is_counted), TIMESTAMP, "and OpenFace counts (frame - 1) / fps")
    for row, column in np.argwhere(np.isnan(block) & (block[:, SUCCESS, None] == 1))[:1]:
        refuse(np.arange(len(block)) == row, column, "although success = 1: wherever it tracks a face, it is known")


@dataclass
class PersonsFace:
    """The face of one person, frame by frame.

    Attributes:
        time: (T,) seconds at which the video's frames are shown.
        holds: which of these frames' regions have the point in them: numbers of frames, x and y in pixels of the whole
            picture.
        faces: rows of each ``face_id`` in the file. This and the following are known when all blocks are read.
        ambiguous: frames with several faces in the region, which are masked.
        jumps_s: from one frame to the next (seconds), her face moves by more than its width: it may be another one's.
    """

    path: Path
    time: np.ndarray
    holds: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    faces: Counter[float] = field(default_factory=Counter)
    ambiguous: int = 0
    jumps_s: list[tuple[float, float]] = field(default_factory=list)
    _last_frame: float = 0.0
    _before: np.ndarray | None = None  # (1, 4) of her last face: time, x, y, width

    @property
    def is_of_several_faces(self) -> bool:
        """Whether the output is of FaceLandmarkVidMulti: it has several ``face_id``s, or skips frames."""
        return len(self.faces) > 1 or self.faces.total() < self._last_frame

    def blocks(self) -> Iterator[np.ndarray]:
        """The person's rows, (n, 714) float32 at a time, one for each frame of the video.

        Without a face of hers ``success`` and ``confidence`` are 0, and all else but frame and timestamp is NaN.

        Raises:
            OpenFaceOutputError: the file is damaged or of another video, or no face is ever in the region.
        """
        rest = np.empty((0, len(OPENFACE_COLUMNS)), np.float32)
        done = successes = 0
        for block in checked_blocks(self.path, self.time):
            self.faces.update(block[:, FACE_ID].tolist())
            self._last_frame = float(block[-1, FRAME])
            rows = np.concatenate([rest, block])
            is_last = rows[:, FRAME] == rows[-1, FRAME]  # further faces of this frame may be in the next block
            rest, rows = rows[is_last], rows[~is_last]
            chosen = self._of_frames(rows, done, int(rows[-1, FRAME]) if len(rows) else done)
            done += len(chosen)
            successes += int(chosen[:, SUCCESS].sum())
            yield chosen
        chosen = self._of_frames(rest, done, len(self.time))
        yield chosen
        if not successes + int(chosen[:, SUCCESS].sum()):
            raise OpenFaceOutputError(
                f"{self.path.name}: no face of it is in this track's region, in any frame: is it the output of the "
                "whole picture, and the region right?"
            )
        if not self.is_of_several_faces:  # but FeatureExtraction's, which has more to be proved by
            for _ in read_openface_csv(self.path, len(self.time), self.time):
                pass

    def _of_frames(self, rows: np.ndarray, first: int, stop: int) -> np.ndarray:
        """(stop - first, 714) the person's row of each of these frames, from all rows of them."""
        chosen = np.full((stop - first, len(OPENFACE_COLUMNS)), np.nan, np.float32)
        chosen[:, FRAME] = np.arange(first + 1, stop + 1)
        chosen[:, TIMESTAMP] = self.time[first:stop]
        chosen[:, [CONFIDENCE, SUCCESS]] = 0
        rows = rows[rows[:, SUCCESS] == 1]
        frames = rows[:, FRAME].astype(np.int64) - 1
        x, y = rows[:, X].mean(axis=1, dtype=np.float64), rows[:, Y].mean(axis=1, dtype=np.float64)
        is_inside = self.holds(frames, x, y)
        count = np.bincount(frames[is_inside] - first, minlength=stop - first)
        self.ambiguous += int((count > 1).sum())
        is_hers = is_inside & (count[frames - first] == 1)
        chosen[frames[is_hers] - first] = rows[is_hers]
        self._note_jumps(
            np.stack([self.time[frames], x, y, np.ptp(rows[:, X], axis=1)], axis=1)[is_hers].astype(np.float64)
        )
        return chosen

    def _note_jumps(self, places: np.ndarray) -> None:
        """Compare each place of her face, (n, 4) as :attr:`_before`, with the one before it."""
        if self._before is not None:
            places = np.concatenate([self._before, places])
        if not len(places):
            return
        moved = np.hypot(*np.diff(places[:, 1:3], axis=0).T)
        is_jump = (np.diff(places[:, 0]) <= _SAME_PLACE_S) & (moved > np.minimum(places[1:, 3], places[:-1, 3]))
        self.jumps_s += [(float(places[row, 0]), float(places[row + 1, 0])) for row in np.flatnonzero(is_jump)]
        self._before = places[-1:]
