"""How far two extractions with OpenFace may lie apart: what two builds on two machines differ by without meaning it."""

from __future__ import annotations

from collections.abc import Mapping

from storyframes.features import OPENFACE_COLUMNS
from tasks.extractors.base import Tolerance

# By the beginning of the column's name; the first that fits counts.
_BY_BEGINNING = {
    "pose_T": Tolerance(1.0),  # mm
    "pose_R": Tolerance(0.01),  # rad
    "gaze": Tolerance(0.01),  # rad, or parts of a unit vector
    "eye_lmk_": Tolerance(0.5),  # pixels or mm
    "x_": Tolerance(0.5),  # pixels
    "y_": Tolerance(0.5),
    "X_": Tolerance(1.0),  # mm
    "Y_": Tolerance(1.0),
    "Z_": Tolerance(1.0),
    "p_t": Tolerance(0.5),  # pixels
    "p_r": Tolerance(0.01),  # rad
    "p_s": Tolerance(0.01),
    "p_": Tolerance(0.5),
    "confidence": Tolerance(0.01),
    "timestamp": Tolerance(0.001),  # s
}


def _of(column: str) -> Tolerance:
    if column.startswith("AU"):
        return Tolerance(0.1) if column.endswith("_r") else Tolerance()
    return next((known for start, known in _BY_BEGINNING.items() if column.startswith(start)), Tolerance())


TOLERANCES: Mapping[str, Tolerance] = {column: _of(column) for column in OPENFACE_COLUMNS}
"""By column; ``confidence`` is also the array of that name."""
