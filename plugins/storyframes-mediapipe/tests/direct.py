"""MediaPipe called directly, in its own environment: what the plug-in has to give. ``direct.py FRAMES.npy OUT.npz``"""

import sys

import mediapipe
import numpy as np

frames = np.load(sys.argv[1])
found = []
with mediapipe.solutions.holistic.Holistic(refine_face_landmarks=True) as holistic:
    for frame in frames:
        result = holistic.process(frame)
        row = {"body_2d": (33, 2), "body_3d": (33, 3), "body_visibility": (33,), "face_2d": (478, 2), "face_z": (478,)}
        row = {name: np.full(shape, np.nan) for name, shape in row.items()}
        if result.pose_landmarks:
            points = result.pose_landmarks.landmark
            row["body_2d"] = np.array([[point.x * frame.shape[1], point.y * frame.shape[0]] for point in points])
            row["body_visibility"] = np.array([point.visibility for point in points])
            world = result.pose_world_landmarks.landmark
            row["body_3d"] = np.array([[point.x, point.y, point.z] for point in world])
        if result.face_landmarks:
            points = result.face_landmarks.landmark
            row["face_2d"] = np.array([[point.x * frame.shape[1], point.y * frame.shape[0]] for point in points])
            row["face_z"] = np.array([point.z for point in points])
        found.append(row)
np.savez(sys.argv[2], **{name: np.stack([row[name] for row in found]) for name in found[0]})
