"""Which features track a face, in which frames, and where the face is in the picture.

A feature declares it (``FeatureSpec.face``). A feature without a declaration that has landmarks of a face in pixels
(columns ``x_0``, ``y_0``, … of ``values``, or an array ``face_2d``) tracks a face where these are not NaN and its mask
is 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from storyframes.features import FEATURES
from storyframes.spec import FACE_PART, MAIN_ARRAY, Axis, FeatureSpec, is_label_curve

_FACE_2D = "face_2d"
_MOUTHS = {68: (62, 66, 27, 8), 84: (78, 82, 43, 16), 478: (13, 14, 168, 152)}
"""By the number of landmarks (iBUG's 68, DOPE, MediaPipe's mesh) the middles of the inner lips, the top of the nose and
the chin."""


@dataclass(frozen=True)
class FaceLandmarks:
    """Where the landmarks of a face are stored.

    Attributes:
        array: of the feature; it has a row for each frame.
        places: (k, 2), the places of x and y of each landmark in a flattened row.
    """

    array: str
    places: np.ndarray

    def squares(self, rows: np.ndarray, margin: float = 0.0) -> np.ndarray:
        """The squares around all landmarks of some rows of the array.

        Args:
            rows: (n, …) of the array.
            margin: added on each side, as a share of the side of the square around the landmarks.

        Returns:
            (n, 3) float32: x and y of the centre and the side, in pixels of the frame; NaN where a landmark is NaN.
        """
        points = rows.reshape(len(rows), -1)[:, self.places]
        low, high = points.min(axis=1), points.max(axis=1)
        side = (high - low).max(axis=1, keepdims=True) * (1 + 2 * margin)
        squares = np.concatenate([(low + high) / 2, side], axis=1).astype(np.float32)
        squares[~np.isfinite(squares).all(axis=1)] = np.nan
        return squares

    def mouth_openings(self, rows: np.ndarray) -> np.ndarray:
        """How far the lips are apart in some rows of the array, as a share of the way from the nose's top to the chin.

        Returns:
            (n,) float32, NaN where a landmark is NaN.

        Raises:
            ValueError: which of the landmarks are the lips is not known.
        """
        if len(self.places) not in _MOUTHS:
            known = ", ".join(map(str, _MOUTHS))
            raise ValueError(f"which of its {len(self.places)} landmarks are the lips is not known (of {known} it is)")
        points = rows.reshape(len(rows), -1)[:, self.places[[*_MOUTHS[len(self.places)]]]].astype(np.float64)
        lips, face = (np.linalg.norm(points[:, first] - points[:, first + 1], axis=1) for first in (0, 2))
        return np.divide(lips, face, out=np.full(len(rows), np.nan), where=face > 0).astype(np.float32)


@dataclass(frozen=True)
class FaceRule:
    """How to read from a feature in which frames it tracks a face.

    Attributes:
        array: whole numbers that are not 0, or floats that are not all NaN, in frames with a face.
        part: the column that counts; None where all do.
        lost_where: an array that is 0 in further frames without a face; empty for none.
        skipped_where: an array that is 0 in frames that were not analysed; empty for none.
    """

    array: str
    part: int | None = None
    lost_where: str = ""
    skipped_where: str = ""

    def tracked(self, read: Callable[[str], np.ndarray]) -> np.ndarray:
        """(T,) float32: 1 in frames with a face, 0 in frames without, NaN in frames that were not analysed.

        Args:
            read: returns the rows of an array, one for each frame.
        """
        rows = read(self.array)
        flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
        flat = flat if self.part is None else flat[:, self.part : self.part + 1]
        has_face = (~np.isnan(flat) if rows.dtype.kind == "f" else flat != 0).any(axis=1)
        if self.lost_where:
            has_face &= read(self.lost_where) != 0
        tracked = has_face.astype(np.float32)
        if self.skipped_where:
            tracked[read(self.skipped_where) == 0] = np.nan
        return tracked


def face_rule(spec: FeatureSpec) -> FaceRule | None:
    """How to read from a feature in which frames it tracks a face; None for a feature that tracks none."""
    has_frame_mask = bool(spec.mask) and spec.arrays[spec.mask].axis is Axis.FRAME
    mask = spec.mask if has_frame_mask else ""
    if spec.face:
        array = spec.arrays[spec.face]
        part = array.columns.index(FACE_PART) if FACE_PART in array.columns else None
        is_float = np.dtype(array.dtype).kind == "f"
        return FaceRule(spec.face, part, skipped_where=mask if is_float else "")
    landmarks = face_landmarks(spec)
    return None if landmarks is None else FaceRule(landmarks.array, lost_where=mask)


def face_landmarks(spec: FeatureSpec) -> FaceLandmarks | None:
    """Where the landmarks of a face are, in pixels of the frame; None where the feature has none."""
    values = spec.arrays.get(MAIN_ARRAY)
    if values is not None and values.axis is Axis.FRAME:
        places = {name: number for number, name in enumerate(values.columns) if re.fullmatch(r"[xy]_\d+", name)}
        pairs = [(places[f"x_{n}"], places[f"y_{n}"]) for n in range(len(places) // 2) if f"y_{n}" in places]
        if pairs:
            return FaceLandmarks(MAIN_ARRAY, np.array(pairs))
    face = spec.arrays.get(_FACE_2D)
    if face is not None and face.axis is Axis.FRAME and face.columns == ("x", "y") and face.units.startswith("pixels"):
        return FaceLandmarks(_FACE_2D, np.arange(int(np.prod(face.shape))).reshape(-1, 2))
    return None


def may_track_a_face(feature: str) -> bool:
    """Whether a feature of this name may track a face; any feature that is not built in may."""
    return face_rule(FEATURES[feature]) is not None if feature in FEATURES else not is_label_curve(feature)
