"""Runs in the environment ``dlib``: square pictures of faces in, a vector of each out."""

import os
import tarfile
from pathlib import Path, PurePosixPath

import dlib
import numpy as np
from storyframes_outside import job

NETWORK, LANDMARKS = "dlib_face_recognition_resnet_model_v1.dat", "shape_predictor_5_face_landmarks.dat"


def unpack(package: str, folder: str) -> None:
    """The two models' files, from the package into the folder."""
    left = {NETWORK, LANDMARKS}
    with tarfile.open(package) as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if name in left and (content := archive.extractfile(member)):
                Path(folder, name).write_bytes(content.read())
                left.remove(name)
            if not left:
                return


folder = os.environ["TMPDIR"]  # this session's own, removed after it
unpack(job.inputs["model"], folder)
network = dlib.face_recognition_model_v1(f"{folder}/{NETWORK}")
landmarks = dlib.shape_predictor(f"{folder}/{LANDMARKS}")
margin = job.settings["margin"]
first = round(job.width * margin / (1 + 2 * margin))
place = dlib.rectangle(first, first, job.width - first, job.width - first)
for frames in job.frames():
    faces = [dlib.get_face_chip(frame, landmarks(frame, place), 150) for frame in np.ascontiguousarray(frames)]
    job.append(values=np.array([network.compute_face_descriptor(face) for face in faces], np.float32))
