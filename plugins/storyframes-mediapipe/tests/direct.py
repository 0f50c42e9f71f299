"""MediaPipe called directly, in its own environment: what the plug-in has to give.

``direct.py BUNDLE FRAMES.npy MILLISECONDS.npy OUT.npz``
"""

import sys

import mediapipe
import numpy as np
from mediapipe.tasks.python import BaseOptions, vision

bundle, frames, times, out = sys.argv[1:]
options = vision.HolisticLandmarkerOptions(
    base_options=BaseOptions(model_asset_path=bundle), running_mode=vision.RunningMode.VIDEO
)
found = []
with vision.HolisticLandmarker.create_from_options(options) as holistic:
    for frame, milliseconds in zip(np.load(frames), np.load(times), strict=True):
        picture = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=frame)
        result = holistic.detect_for_video(picture, int(milliseconds))
        row = {"body_2d": (33, 2), "body_3d": (33, 3), "body_visibility": (33,), "face_2d": (478, 2), "face_z": (478,)}
        row = {name: np.full(shape, np.nan) for name, shape in row.items()}
        if points := result.pose_landmarks:
            row["body_2d"] = np.array([[point.x * frame.shape[1], point.y * frame.shape[0]] for point in points])
            row["body_visibility"] = np.array([point.visibility for point in points])
            world = result.pose_world_landmarks
            row["body_3d"] = np.array([[point.x, point.y, point.z] for point in world])
        if points := result.face_landmarks:
            row["face_2d"] = np.array([[point.x * frame.shape[1], point.y * frame.shape[0]] for point in points])
            row["face_z"] = np.array([point.z for point in points])
        found.append(row)
np.savez(out, **{name: np.stack([row[name] for row in found]) for name in found[0]})
