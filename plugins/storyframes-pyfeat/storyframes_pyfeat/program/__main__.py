"""Runs in py-feat's own environment: frames in, what Detectorv2 says of the largest face in each out."""

from faces import Faces
from storyframes_outside import job

PIXELS_AT_ONCE = 2_000_000  # the face detector takes about 100 bytes of memory for each

faces = Faces(job.inputs["face_detector"], job.inputs["multitask"], job.settings, job.threads)
batch = max(1, min(8, PIXELS_AT_ONCE // max(1, job.width * job.height)))
for frames in job.frames(batch):
    job.append(**faces.rows_of(frames))
