"""Runs in MediaPipe's own environment: frames in, what the Holistic Landmarker finds out.

A frame's landmarks depend on the frames before it: MediaPipe follows a person and smooths. So they come in order, all
of them, and nothing is computed at once that belongs one after another.
"""

from contextlib import closing

import numpy as np
from holistic import Holistic, rows_of
from storyframes_outside import job

seconds = iter(np.load(job.frame_times))
with closing(Holistic(job.inputs["model"], job.settings)) as holistic:
    for frames in job.frames():
        results = [holistic.process(frame, next(seconds)) for frame in frames]
        found = [rows_of(result, job.width, job.height) for result in results]
        job.append(**{name: np.stack([rows[name] for rows in found]) for name in found[0]})
