"""MediaPipe Holistic, and its results as rows of arrays."""

import numpy as np
from mediapipe.python.solutions.holistic import Holistic

BODY, FACE, HAND = 33, 478, 21


def open_holistic(settings):
    """The solution as the settings say; the mesh always has the irises."""
    return Holistic(refine_face_landmarks=True, **settings)


def rows_of(results, width, height):
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
    found = np.array([part is not None for part in parts], np.uint8)
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


def _points(landmarks, count):
    """(count, 4): x, y, z, visibility."""
    if landmarks is None:
        return np.full((count, 4), np.nan)
    points = np.array([(point.x, point.y, point.z, point.visibility) for point in landmarks.landmark])
    if len(points) != count:
        raise ValueError(f"MediaPipe gave {len(points)} landmarks, not {count}")
    return points
