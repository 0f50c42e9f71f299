"""Runs in the environment ``faces``: frames in, the landmarks of one face out.

A frame's landmarks depend on the frame before, in whose face they are looked for, so the frames come in order.
"""

import numpy as np
from mediapipe.python.solutions.face_mesh import FACEMESH_NUM_LANDMARKS_WITH_IRISES, FaceMesh
from storyframes_outside import job

with FaceMesh(refine_landmarks=True, max_num_faces=1, **job.settings) as mesh:
    for frames in job.frames():
        points = np.full((len(frames), FACEMESH_NUM_LANDMARKS_WITH_IRISES, 3), np.nan)
        for row, frame in zip(points, frames, strict=True):
            for face in mesh.process(frame).multi_face_landmarks or ():
                row[:] = [(point.x, point.y, point.z) for point in face.landmark]
        job.append(
            found=np.isfinite(points).all(axis=(1, 2)).astype(np.uint8),
            face_2d=(points[..., :2] * (job.width, job.height)).astype(np.float32),
            face_z=points[..., 2].astype(np.float32),
        )
