"""A person's pieces as a table of boxes over time, which the table of tracks names as the region of a track.

Centres and sizes are smoothed by a weighted linear fit at each detection, whose weights are a Gaussian of
:data:`SMOOTHING_S` seconds, within a piece: never across a gap, and without delay.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd

from storyframes_people.attribution import Person
from storyframes_people.pieces import Piece
from tasks.study import Boxes

SMOOTHING_S = 0.25
MARGIN = 0.4
RULES = 2
"""The rules that proposed the boxes, written into each file. Files without them may show shirts and doors as faces."""
_DECIMALS = 5


def region(person: Person, size: tuple[int, int], frame_s: float, margin: float = MARGIN) -> Boxes:
    """A person's boxes, and none from half a frame before and after each piece on, or from half way to a sooner one.

    Rows without a box say so also before the first piece and after the last: otherwise a box would hold for a frame
    more, which is another scene where the recording was cut.

    Args:
        size: width and height of the picture, pixels.
        frame_s: seconds from one frame to the next.
        margin: what is added to the face on each side, in its own width and height: detectors' boxes end at the
            hairline and the chin, and tools for faces need some of what is around.
    """
    time: list[np.ndarray] = []
    box: list[np.ndarray] = []
    doubtful: list[np.ndarray] = []
    begins = [float(piece.time[0]) for piece in person.pieces]
    if (before_s := begins[0] - frame_s / 2) > 0:
        time, box, doubtful = [np.array([before_s])], [np.full((1, 4), np.nan)], [np.zeros(1, bool)]
    for number, piece in enumerate(person.pieces, 1):
        next_s = min(begins[number:], default=np.inf)
        kept = piece.time < next_s  # doubtful ones may be from when the next has begun
        piece = Piece(*(rows[kept] for rows in (piece.time, piece.box, piece.looks, piece.doubtful)))
        time += [piece.time, np.minimum(piece.time[-1:] + frame_s / 2, (piece.time[-1:] + next_s) / 2)]
        box += [_inside(_with_margin(smoothed(piece), margin), size) / (*size, *size), np.full((1, 4), np.nan)]
        doubtful += [piece.doubtful, np.zeros(1, bool)]
    time_s, boxes, is_doubtful = (np.concatenate(rows) for rows in (time, box, doubtful))
    return Boxes(time_s, boxes.round(_DECIMALS), is_doubtful)


def regions_of(
    people: Sequence[Person], size: tuple[int, int], frame_s: float, margin: float = MARGIN
) -> dict[str, Boxes]:
    """The boxes of all people of a picture, by name.

    Where two regions overlap by more than half of the smaller one, each ends half way to the other face, but not within
    its own. Where they do so still, both are doubtful: whose box it is may be sure there, but a tool that finds a face
    in it by itself may take the neighbour's.

    Args:
        size, frame_s, margin: see :func:`region`.
    """
    whole = {person.name: region(person, size, frame_s, margin) for person in people}
    faces = {person.name: region(person, size, frame_s, margin=0) for person in people}
    cut = dict(whole)
    for name, other in permutations(whole, 2):
        time_s = cut[name].time_s
        shared = whole[name].shares(whole[other], time_s)
        box = cut[name].box.copy()
        box[shared] = _cut_between(box[shared], faces[name].box[shared], faces[other].at(time_s[shared], 0))
        cut[name] = replace(cut[name], box=box.round(_DECIMALS))
    marked = dict(cut)
    for name, other in permutations(cut, 2):
        shared = cut[name].shares(cut[other], cut[name].time_s)
        marked[name] = replace(marked[name], doubtful=marked[name].doubtful | shared)
    for name, boxes in marked.items():  # a row says what holds until the next: also for frames before a doubtful one
        before = np.append(boxes.doubtful[1:] & (np.diff(boxes.time_s) > 1.5 * frame_s), False)
        marked[name] = replace(boxes, doubtful=boxes.doubtful | (before & boxes.seen))
    return marked


def _cut_between(box: np.ndarray, face: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Boxes (n, 4) around faces that end half way to the others' faces, but not within their own."""
    rows, (start, end) = np.arange(len(box)), (box[:, :2].copy(), box[:, :2] + box[:, 2:])
    face_end, other_end = face[:, :2] + face[:, 2:], other[:, :2] + other[:, 2:]
    away = (other[:, :2] + other_end - face[:, :2] - face_end) / (face[:, 2:] + other[:, 2:])
    axis = np.abs(away).argmax(axis=1)
    last = np.maximum(face_end, (face_end + other[:, :2]) / 2)
    first = np.minimum(face[:, :2], (face[:, :2] + other_end) / 2)
    is_after = away[rows, axis] > 0
    end[rows, axis] = np.where(is_after, np.minimum(end, last)[rows, axis], end[rows, axis])
    start[rows, axis] = np.where(is_after, start[rows, axis], np.maximum(start, first)[rows, axis])
    return np.column_stack([start, end - start])


def csv_of(boxes: Boxes) -> bytes:
    """The content of the file, see ``tasks/study/boxes.py``."""
    table = pd.DataFrame(boxes.box, columns=["x", "y", "w", "h"])
    table.insert(0, "time_s", boxes.time_s)
    table["doubtful"] = np.where(boxes.doubtful, "true", "false")
    table["rules"] = RULES
    written = io.StringIO()
    table.to_csv(written, index=False)
    return written.getvalue().encode()


def smoothed(piece: Piece) -> np.ndarray:
    """(n, 4): the boxes of a piece, smoothed; pixels."""
    centre = piece.box[:, :2] + piece.box[:, 2:] / 2
    values = np.column_stack([centre, np.log(piece.box[:, 2:])])
    time = piece.time
    fitted = np.empty_like(values)
    for row, now in enumerate(time):
        near = slice(*np.searchsorted(time, [now - 3 * SMOOTHING_S, now + 3 * SMOOTHING_S]))
        apart = time[near] - now
        weight = np.exp(-0.5 * (apart / SMOOTHING_S) ** 2)
        mean = weight @ apart / weight.sum()
        about = apart - mean
        level = weight @ values[near] / weight.sum()
        spread = weight @ about**2
        slope = (weight * about) @ values[near] / spread if spread > 1e-9 else 0.0
        fitted[row] = level - slope * mean
    sides = np.exp(fitted[:, 2:])
    return np.column_stack([fitted[:, :2] - sides / 2, sides])


def _with_margin(boxes: np.ndarray, margin: float) -> np.ndarray:
    return np.column_stack([boxes[:, :2] - margin * boxes[:, 2:], boxes[:, 2:] * (1 + 2 * margin)])


def _inside(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The boxes moved into the picture, and only as large as it is."""
    sides = np.minimum(boxes[:, 2:], size)
    return np.column_stack([np.clip(boxes[:, :2], 0, np.array(size) - sides), sides])
