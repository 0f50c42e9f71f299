"""MediaPipe finds the faces of several people, each in her own place, also in a recording that is stored lying."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from storyframes_mediapipe.extractor import MediaPipeSettings
from storyframes_mediapipe.people import MediaPipeFaces
from support.media.people_scenes import HEIGHT, NAMES, WIDTH, Scene, pictures, scenes
from support.media.real_faces import SMALL, photo_clip, video_clip
from support.media.turned import set_matrix
from support.media.video_variants import ffmpeg

from benchmarks.extracting.people import attributed, false_boxes, score
from storyframes_people.attribution import by_seats, parse_seats
from storyframes_people.detections import detect_faces, overlap
from storyframes_people.detectors import choose_pictures
from storyframes_people.pieces import find_pieces
from tasks.extractors.base import ExtractionError
from tasks.media.upright import write_lossless

pytestmark = [pytest.mark.usefixtures("bundle"), pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def scene() -> Scene:
    (gallery,) = [scene for scene in scenes(0) if scene.kind == "gallery"]
    return replace(gallery, seconds=3.0, fps=15.0)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory, scene: Scene) -> Path:
    """Three people in three tiles; the frames are stored on their side, and the header says so."""
    folder = tmp_path_factory.mktemp("gallery")
    write_lossless(folder / "upright.avi", (rgb[..., ::-1].copy() for rgb in pictures(scene)), scene.fps)
    lying = folder / "lying.mov"
    ffmpeg("-i", folder / "upright.avi", "-vf", "transpose=cclock", "-c:v", "mpeg4", "-q:v", "2", lying)
    return set_matrix(lying, (0, 1, -1, 0))


@pytest.mark.needs("ffmpeg")
def test_everybody_is_found_and_attributed_in_every_picture(video: Path, scene: Scene) -> None:
    chosen = choose_pictures(video, 5)
    assert (chosen.width, chosen.height, len(chosen)) == (WIDTH, HEIGHT, 16)
    detections = detect_faces(chosen, MediaPipeFaces(), MediaPipeSettings(), 0.5)
    people, reasons = by_seats(find_pieces(detections), parse_seats(scene.seats), (WIDTH, HEIGHT))
    assert [person.name for person in people] == list(NAMES)
    assert reasons == []
    for person in people:
        (piece,) = person.pieces
        assert not piece.doubtful.any()
        np.testing.assert_array_equal(piece.time, chosen.time)
        for t, box in zip(piece.time, piece.box, strict=True):
            truth = scene.truth(person.name, float(t))
            assert truth is not None
            assert overlap(box, truth) > 0.5


@pytest.mark.needs("real faces")
def test_real_people_are_in_tracks_and_shirts_and_doors_are_not(tmp_path: Path) -> None:
    """Of clips of eight people and of a title card; ``benchmarks.extracting.people --real`` has them all."""
    clips = [
        photo_clip("bar", tmp_path),
        photo_clip("beach", tmp_path, SMALL),
        video_clip("leaves"),
        video_clip("nobody"),
    ]
    counts = Counter[str]()
    for clip in clips:
        detections = detect_faces(
            choose_pictures(clip.path, 10), MediaPipeFaces(), MediaPipeSettings(), MediaPipeFaces.min_confidence
        )
        people = attributed(clip, detections, with_faces=False)
        counts += score(clip, people, with_faces=False) + Counter(false=false_boxes(clip, people))
    assert counts["all"] > 1250
    assert counts["right"] > 0.97 * counts["all"]
    assert (counts["false"], counts["wrong"]) == (0, 0)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="does not exist"):
        MediaPipeFaces().check(MediaPipeSettings(model=tmp_path / "none.task"))
