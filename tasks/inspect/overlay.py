"""A frame with what the features say drawn on it: to look at, and only on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from storyframes.features import FEATURES
from storyframes.store.durable import write_atomically
from storyframes.store.feature_store import FeatureStore
from tasks.extractors.dope.joints import BODY_BONES, HAND_BONES
from tasks.media.recording import read_frames

_BODY, _HANDS, _FACE = (255, 160, 0), ((255, 0, 120), (120, 0, 255)), (0, 200, 255)
_OPENFACE, _OPENFACE_LOST = (0, 220, 0), (128, 128, 128)


class OverlayError(Exception):
    """There is nothing to draw; the message says why."""


def draw_overlay(video: Path, store: FeatureStore, session_id: str, frame: int) -> np.ndarray:
    """The frame with OpenFace's 2-D landmarks (grey where the face was lost) and DOPE's poses.

    Args:
        video: the session's.
        store: its features.
        session_id: which.
        frame: counted from 0.

    Returns:
        (height, width, 3) uint8 RGB.

    Raises:
        OverlayError: the video has no such frame, or the store has neither feature for it.
    """
    return next(draw_overlays(video, store, session_id, [frame]))


def draw_overlays(video: Path, store: FeatureStore, session_id: str, frames: Sequence[int]) -> Iterator[np.ndarray]:
    """The same for several frames, in one pass over the video.

    Args:
        video, store, session_id: as above.
        frames: ascending, counted from 0.

    Raises:
        OverlayError: the video has not all of the frames, or the store has neither feature for it.
    """
    features = store.features(session_id)
    if not {"openface", "dope"} & set(features):
        raise OverlayError(f"{session_id} has neither openface nor dope; it has {', '.join(features) or 'nothing'}")
    for frame, picture in _decode(video, frames):
        if "openface" in features:
            _draw_openface(picture, store, session_id, frame)
        if "dope" in features:
            _draw_dope(picture, store, session_id, frame)
        yield picture


def write_picture(picture: np.ndarray, path: Path) -> None:
    """Write an RGB picture as PNG, private to the owner."""
    _, content = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    write_atomically(path, content.tobytes())


def _decode(video: Path, frames: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    wanted, seen = deque(frames), 0
    for batch in read_frames(video, 16, allow_truncated=True):
        seen += len(batch)
        while wanted and wanted[0] < seen:
            frame = wanted.popleft()
            yield frame, batch.rgb[frame - batch.first].copy()
        if not wanted:
            return
    raise OverlayError(f"{video.name} has frames 0 to {seen - 1}; frame {wanted[0]} was asked for")


def _draw_openface(picture: np.ndarray, store: FeatureStore, session_id: str, frame: int) -> None:
    values = store.read(session_id, "openface", frame, frame + 1)[0]
    valid = store.read(session_id, "openface", frame, frame + 1, array="valid")[0]
    landmarks = values[FEATURES["openface"].groups["landmarks_2d"]].reshape(2, 68).T
    _dots(picture, landmarks, _OPENFACE if valid else _OPENFACE_LOST, 1)


def _draw_dope(picture: np.ndarray, store: FeatureStore, session_id: str, frame: int) -> None:
    def pose(array: str) -> np.ndarray:
        return store.read(session_id, "dope", frame, frame + 1, array=array)[0]

    _bones(picture, pose("body_2d"), BODY_BONES, _BODY)
    for hand, colour in zip(pose("hands_2d"), _HANDS, strict=True):
        _bones(picture, hand, HAND_BONES, colour)
    _dots(picture, pose("face_2d"), _FACE, 1)


def _bones(picture: np.ndarray, joints: np.ndarray, bones: tuple[tuple[int, int], ...], colour: tuple) -> None:
    for start, end in bones:
        if np.isfinite(joints[[start, end]]).all():
            cv2.line(picture, _pixel(joints[start]), _pixel(joints[end]), colour, 2, cv2.LINE_AA)
    _dots(picture, joints, colour, 3)


def _dots(picture: np.ndarray, points: np.ndarray, colour: tuple, radius: int) -> None:
    for point in points[np.isfinite(points).all(axis=1)]:
        cv2.circle(picture, _pixel(point), radius, colour, -1, cv2.LINE_AA)


def _pixel(point: np.ndarray) -> tuple[int, int]:
    # OpenCV's coordinates are 32-bit; a joint far outside the frame is drawn nowhere either way.
    x, y = np.clip(point, -10_000, 10_000)
    return round(float(x)), round(float(y))
