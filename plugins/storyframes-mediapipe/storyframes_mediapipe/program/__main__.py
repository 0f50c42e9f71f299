"""Runs in MediaPipe's own environment: frames in, what Holistic finds out.

A frame's landmarks depend on the frames before it: MediaPipe follows a person and smooths. So they come in order, all
of them, and nothing is computed at once that belongs one after another.
"""

import numpy as np
from holistic import open_holistic, rows_of
from storyframes_outside import job

with open_holistic(job.settings) as holistic:
    for frames in job.frames():
        found = [rows_of(holistic.process(frame), job.width, job.height) for frame in frames]
        job.append(**{name: np.stack([rows[name] for rows in found]) for name in found[0]})
