"""A person's pieces as a file of boxes over time, which the table of tracks names as the region of a track.

The columns are time_s, x, y, w, h (shares of the upright picture), confidence and doubtful; a row without a box says
that nobody is seen from there on. Centres and sizes are smoothed by a weighted linear fit at each detection, whose
weights are a Gaussian of :data:`SMOOTHING_S` seconds, within a piece: never across a gap, and without delay.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pandas as pd

from tasks.people.attribution import Person
from tasks.people.pieces import Piece
from tasks.study.boxes import Boxes, are_shared

SMOOTHING_S = 0.25
MARGIN = 0.4
COLUMNS = ["time_s", "x", "y", "w", "h", "confidence", "doubtful"]
_DECIMALS = 5


def region(person: Person, size: tuple[int, int], frame_s: float, margin: float = MARGIN) -> pd.DataFrame:
    """The rows of a person's file of boxes.

    Args:
        size: width and height of the picture, pixels.
        frame_s: seconds from one frame to the next.
        margin: what is added to the face on each side, in its own width and height: detectors' boxes end at the
            hairline and the chin, and tools for faces need some of what is around.
    """
    rows: list[pd.DataFrame] = []
    for number, piece in enumerate(person.pieces):
        piece = _without_overlap(piece, person.pieces[number + 1 :])
        boxes = _inside(_with_margin(smoothed(piece), margin), size)
        table = pd.DataFrame(boxes / np.array([*size, *size]), columns=["x", "y", "w", "h"]).round(_DECIMALS)
        table.insert(0, "time_s", piece.time)
        table["confidence"], table["doubtful"] = piece.confidence.round(3), piece.doubtful
        end = pd.DataFrame({"time_s": [piece.time[-1] + frame_s / 2], "doubtful": [False]})
        rows += [table, end]
    return pd.concat(rows[:-1], ignore_index=True).reindex(columns=COLUMNS)


def with_shared_as_doubtful(regions: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The rows of all people's files, doubtful also where two regions overlap by more than half: whose box it is may be
    sure there, but a tool that finds a face in it by itself may take the neighbour's."""
    boxes = {
        name: Boxes(table["time_s"].to_numpy(), table[COLUMNS[1:5]].to_numpy(float), table["doubtful"].to_numpy(bool))
        for name, table in regions.items()
    }
    marked = {name: table.copy() for name, table in regions.items()}
    for (name, one), (_, other) in permutations(boxes.items(), 2):
        marked[name]["doubtful"] |= are_shared(one, other, one.time_s)
    return marked


def csv_of(table: pd.DataFrame) -> bytes:
    """The content of the file."""
    written = io.StringIO()
    table.assign(doubtful=table["doubtful"].map({True: "true", False: "false"})).to_csv(written, index=False)
    return written.getvalue().encode()


def _without_overlap(piece: Piece, later: tuple[Piece, ...]) -> Piece:
    """The piece without doubtful detections at its end that are from when the next piece has begun."""
    kept = piece.time < min((other.time[0] for other in later), default=np.inf)
    return Piece(piece.time[kept], piece.box[kept], piece.confidence[kept], piece.looks[kept], piece.doubtful[kept])


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
