"""MediaPipe's Holistic Landmarker, and its results as rows of arrays."""

from collections.abc import Mapping
from typing import Any

import mediapipe
import numpy as np
from mediapipe.tasks.python import BaseOptions
from mediapipe.tasks.python.vision import HolisticLandmarker, HolisticLandmarkerOptions, RunningMode

BODY, FACE, HAND = 33, 478, 21


class Holistic:
    """Landmarks of pictures that come in order.

    Args:
        model: path of the bundle, ``holistic_landmarker.task``.
        settings: of the plug-in, by name.
    """

    def __init__(self, model: str, settings: Mapping[str, Any]) -> None:
        options = dict(settings)
        self._follows = not options.pop("static_image_mode")
        mode = RunningMode.VIDEO if self._follows else RunningMode.IMAGE
        base = BaseOptions(model_asset_path=model)
        self._landmarker = HolisticLandmarker.create_from_options(
            HolisticLandmarkerOptions(base_options=base, running_mode=mode, **options)
        )
        self._last_ms = -1

    def process(self, rgb: np.ndarray, second: float) -> Any:
        """The result for a frame, (height, width, 3) uint8, that is shown at this second of the recording."""
        picture = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(rgb))
        if not self._follows:
            return self._landmarker.detect(picture)
        # It counts whole milliseconds, and each has to be later than the last.
        self._last_ms = max(round(second * 1000), self._last_ms + 1)
        return self._landmarker.detect_for_video(picture, self._last_ms)

    def close(self) -> None:
        self._landmarker.close()


def rows_of(results: Any, width: int, height: int) -> dict[str, np.ndarray]:
    """One frame's rows, by array; NaN for what was not found.

    Pictures' coordinates are MediaPipe's shares of the width and the height, times these: pixels, x to the right and
    y down, beyond the picture for what it believes to be there.
    """
    body = _points(results.pose_landmarks, BODY)
    world = _points(results.pose_world_landmarks, BODY)
    face = _points(results.face_landmarks, FACE)
    hands = np.stack([_points(hand, HAND) for hand in (results.left_hand_landmarks, results.right_hand_landmarks)])
    size = np.array([width, height])
    parts = (results.pose_landmarks, results.face_landmarks, results.left_hand_landmarks, results.right_hand_landmarks)
    found = np.array([bool(part) for part in parts], np.uint8)
    return {
        "found": found.any().astype(np.uint8),
        "parts": found,
        "body_2d": (body[:, :2] * size).astype(np.float32),
        "body_3d": world[:, :3].astype(np.float32),
        "body_visibility": body[:, 3].astype(np.float32),
        "face_2d": (face[:, :2] * size).astype(np.float32),
        "face_z": face[:, 2].astype(np.float32),
        "hands_2d": (hands[..., :2] * size).astype(np.float32),
        "hands_z": hands[..., 2].astype(np.float32),
    }


def _points(landmarks: Any, count: int) -> np.ndarray:
    """(count, 4): x, y, z, visibility (NaN where a model has none)."""
    if not landmarks:
        return np.full((count, 4), np.nan)
    points = np.array([(point.x, point.y, point.z, point.visibility) for point in landmarks], float)
    if len(points) != count:
        raise ValueError(f"MediaPipe gave {len(points)} landmarks, not {count}")
    return points
