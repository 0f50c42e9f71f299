"""Where the face is in each frame, by landmarks that another feature of the session has, and cutting it out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from storyframes.face_tracking import FaceLandmarks, face_landmarks
from storyframes.store.description import Version, open_array, read_descriptions
from storyframes.store.record_status import read_status
from storyframes.store.storage import Storage
from tasks.extractors.base import ExtractionError
from tasks.extractors.earlier_fingerprints import has_fingerprint

_BLOCK = 3000  # rows of landmarks in memory at once
_LARGEST = 2.0  # a face's square, in longer sides of the frame: beyond it the landmarks are astray


@dataclass(frozen=True)
class Faces:
    """The square around the face in each frame."""

    # (T, 3) float32, x and y of the centre and the side, in pixels of the frame; NaN where no face is
    squares: np.ndarray

    def cut(self, frame: int, rgb: np.ndarray) -> np.ndarray | None:
        """The face in a (height, width, 3) uint8 frame: (side, side, 3) uint8, black beyond it; None without one."""
        height, width = rgb.shape[:2]
        x, y, length = self.squares[frame]
        if not np.isfinite(length) or not 1 <= length <= _LARGEST * max(height, width):
            return None
        side = round(float(length))
        left, top = round(float(x) - side / 2), round(float(y) - side / 2)
        inside = slice(max(top, 0), min(top + side, height)), slice(max(left, 0), min(left + side, width))
        seen = rgb[inside]
        if not seen.size:
            return None
        face = np.zeros((side, side, 3), np.uint8)
        face[inside[0].start - top : inside[0].stop - top, inside[1].start - left : inside[1].stop - left] = seen
        return face


def read_faces(
    storage: Storage, session_id: str, feature: str, margin: float, frames: int, section: str, fingerprint: str = ""
) -> Faces:
    """The squares of a session's faces: around all landmarks, with a margin.

    Args:
        margin: added on each side, in sides of the square around the landmarks.
        section: of the configuration, for messages.

    Raises:
        ExtractionError: as of :func:`read_landmarks`.
    """
    landmarks, blocks = read_landmarks(storage, session_id, feature, frames, f"{section} crop = 'face'", fingerprint)
    return Faces(np.concatenate([landmarks.squares(rows, margin) for rows in blocks]))


def read_landmarks(
    storage: Storage, session_id: str, feature: str, frames: int, setting: str, fingerprint: str = ""
) -> tuple[FaceLandmarks, Iterator[np.ndarray]]:
    """Where a feature's landmarks are, and the rows that have them, in blocks; NaN where the mask is 0.

    Args:
        feature: whose landmarks, as it is called in the store.
        frames: of the session's clock.
        setting: which asks for them, for messages.
        fingerprint: that the landmarks have to have; empty for any.

    Raises:
        ExtractionError: the feature is not in the store, has another fingerprint or length, or no landmarks of a face.
    """
    entry = read_status(storage, session_id, feature)
    current = entry.record if entry else None
    if current is None:
        reason = (entry.reason if entry else "") or f"{feature} has not been extracted: extract it first"
        raise ExtractionError(f"{setting} needs the landmarks of {feature}: {reason}")
    if fingerprint and not has_fingerprint(storage, current, fingerprint):
        raise ExtractionError(
            f"{setting}: the landmarks of {feature} in the store are of other files or settings than those of now: "
            f"extract {feature} first"
        )
    path = f"{session_id}/{feature}/{current.version}"
    (spec,) = read_descriptions(storage, {(session_id, feature): Version(path, current.arrays)})
    landmarks = face_landmarks(spec)
    if landmarks is None:
        raise ExtractionError(
            f"{setting}: {feature} has no landmarks of a face (columns x_0, y_0, … in pixels, or an array face_2d)"
        )
    stored = open_array(storage, f"{path}/{landmarks.array}", current.arrays[landmarks.array])
    mask = open_array(storage, f"{path}/{spec.mask}", current.arrays[spec.mask])[:] if spec.mask else None
    if stored.shape[0] != frames:
        raise ExtractionError(
            f"{setting}: {feature} has {stored.shape[0]} rows, but the session's clock has {frames} frames: extract "
            f"{feature} again"
        )

    def blocks() -> Iterator[np.ndarray]:
        for first in range(0, frames, _BLOCK):
            rows = np.asarray(stored[first : first + _BLOCK])
            if mask is not None:
                rows[np.asarray(mask[first : first + _BLOCK]) == 0] = np.nan
            yield rows

    return landmarks, blocks()
