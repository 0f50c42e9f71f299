"""OpenFace's FaceLandmarkVidMulti as a detector: every face of every frame in its own place, whatever its face_id."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from support.media.turned import MATRICES, OPPOSITE, TURNED_BY_FFMPEG, set_matrix
from support.media.video_variants import ffmpeg
from support.messages import naming
from support.tools import standin
from support.tools.container_engines import containers
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import OPENFACE_COLUMNS
from storyframes_people.detections import detect_faces
from storyframes_people.detectors import OpenFaceFaces, choose_pictures
from tasks.extractors.base import ExtractionError
from tasks.extractors.openface.extractor import Backend, OpenFaceSettings
from tasks.media.upright import write_lossless

pytest_plugins = ["support.tools.container_engines"]

X, Y = ([f"{axis}_{point}" for point in range(68)] for axis in "xy")
FPS, FRAMES, WIDTH, HEIGHT = 20, 60, 200, 120

# What is bright is a face: a row of each, whose ids are swapped from frame to frame, after one of a face that is lost.
TOOL = """#!{python}
import os, sys
import cv2
import numpy as np
import pandas as pd
arguments = dict(zip(sys.argv[1:], sys.argv[2:]))
capture, rows = cv2.VideoCapture(arguments["-f"]), []
while (shown := capture.read())[0]:
    number = rows[-1][0] + 1 if rows else 1
    count, _, stats, _ = cv2.connectedComponentsWithStats((shown[1].max(axis=2) > 120).astype(np.uint8))
    faces = stats[1:, :4].tolist()
    rows.append((number, 3, 0, 0, 0, 0, 9, 9))
    rows += [(number, (n + number) % 2, 1, 0.75, *face) for n, face in enumerate(faces)]
table = pd.DataFrame(0.5, index=range(len(rows)), columns={columns})
frame, face_id, success, confidence, left, top, width, height = np.array(rows).T
across = np.linspace(0, 1, 68)
for point in range(68):
    table[f"x_{{point}}"] = left + width * across[point]
    table[f"y_{{point}}"] = top + height * across[::-1][point]
table["frame"], table["timestamp"], table["face_id"] = frame + {late}, (frame + {late} - 1) / {fps}, face_id
table["confidence"], table["success"] = confidence, success
name = os.path.splitext(os.path.basename(arguments["-f"]))[0]
table.to_csv(os.path.join(arguments["-out_dir"], name + ".csv"), index=False)
"""


def write_tool(folder: Path, late: int = 0) -> OpenFaceSettings:
    """The settings with a stand-in of this machine, which counts frames from ``1 + late``."""
    tool = folder / "FaceLandmarkVidMulti"
    tool.write_text(TOOL.format(python=sys.executable, columns=list(OPENFACE_COLUMNS), fps=FPS, late=late))
    tool.chmod(0o755)
    return OpenFaceSettings(backend=Backend.BINARY, binary=folder / "FeatureExtraction", loads=(tool,))


def heads(frame: int) -> np.ndarray:
    """(2, 4): one head goes right, one down; left, top, width, height."""
    return np.array([[20 + frame, 40, 24, 28], [150, 20 + frame // 2, 20, 26]])


def write_video(path: Path, orientation: str = "as it is") -> Path:
    def picture(frame: int) -> np.ndarray:
        image = np.full((HEIGHT, WIDTH, 3), 20, np.uint8)
        for (left, top, width, height), colour in zip(heads(frame), [(40, 140, 240), (240, 120, 60)], strict=True):
            cv2.rectangle(image, (left, top), (left + width - 1, top + height - 1), colour, -1)
        return image

    upright = path.with_name("upright.avi")
    write_lossless(upright, (picture(frame) for frame in range(FRAMES)), FPS)
    stored = TURNED_BY_FFMPEG[OPPOSITE.get(orientation, orientation)]
    ffmpeg("-i", upright, "-vf", stored, "-c:v", "png", "-pix_fmt", "rgb24", path)
    return set_matrix(path, MATRICES[orientation])


@pytest.mark.slow
@pytest.mark.parametrize("orientation", ["as it is", "90"])
def test_each_frame_s_faces_are_at_its_heads_in_the_upright_picture(tmp_path: Path, orientation: str) -> None:
    pictures = choose_pictures(write_video(tmp_path / "video.mov", orientation), 10)
    found = detect_faces(pictures, OpenFaceFaces(), write_tool(tmp_path), 0.5)
    assert (pictures.width, pictures.height, len(found)) == (WIDTH, HEIGHT, FRAMES // 2 + 1)
    for frame, boxes in zip(pictures.frames, found.boxes, strict=True):
        expected = heads(int(frame))
        np.testing.assert_allclose(boxes[np.argsort(boxes[:, 0])], expected, atol=1e-4)
    assert {*np.concatenate([*OpenFaceFaces().faces(pictures, write_tool(tmp_path))])[:, 4]} == {0.75}


@pytest.mark.slow
def test_output_of_other_frames_is_refused(tmp_path: Path) -> None:
    pictures = choose_pictures(write_video(tmp_path / "video.mov"), 10)
    settings = write_tool(tmp_path, late=1)
    with pytest.raises(ExtractionError, match=naming("frame = 61", "60 frames", "with 0", "FaceLandmarkVidMulti")):
        detect_faces(pictures, OpenFaceFaces(), settings, 0.5)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = OpenFaceSettings(backend=Backend.BINARY, binary=tmp_path / "FeatureExtraction")
    with pytest.raises(ExtractionError, match=naming("FaceLandmarkVidMulti")):
        OpenFaceFaces().check(settings)


@pytest.mark.slow
def test_the_command_proposes_regions_of_them(tmp_path: Path) -> None:
    settings = write_tool(tmp_path)
    config = tmp_path / "storyframes.toml"
    config.write_text(
        f'[openface]\nbackend = "binary"\nbinary = "{settings.binary}"\nloads = ["{settings.loads[0]}"]\n'
    )
    study = tmp_path / "study"
    study.mkdir()
    write_video(study / "video.mov")
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns1,p1,video.mov\n")
    seats = ("--seat", "left=anna", "--seat", "right=ben", "--detector", "openface", "--margin", "0")
    result = CliRunner().invoke(app, ["people", str(study), *seats, "--config", str(config)])
    assert result.exit_code == 0, result.output
    for person, name in enumerate(("anna", "ben")):
        boxes = pd.read_csv(study / f"regions/s1@{name}.csv").dropna(subset=["x"])
        expected = np.array([heads(round(time * FPS))[person] for time in boxes["time_s"]])
        found = boxes[["x", "y", "w", "h"]] * [WIDTH, HEIGHT, WIDTH, HEIGHT]
        np.testing.assert_allclose(found, expected, atol=0.5)


@pytest.mark.slow
def test_the_program_of_the_image_runs_in_its_container(engine, image_of, demo_study: Path) -> None:
    settings = OpenFaceSettings(engine=engine.name, image=image_of(), binary=Path(standin.BINARY), memory_gib=0.5)
    pictures = choose_pictures(demo_study / "videos/p01-s01.avi", 5)
    recorded = pd.read_csv(demo_study / "openface/p01-s01.csv.gz", skipinitialspace=True)
    found = list(OpenFaceFaces().faces(pictures, settings))
    assert len(found) == len(pictures) == 121
    for frame, faces in zip(pictures.frames, found, strict=True):
        row = recorded.iloc[frame]
        left, top = row[X].min(), row[Y].min()
        first = [left, top, row[X].max() - left, row[Y].max() - top, row["confidence"]]
        second = np.subtract(first, [standin.APART, 0, 0, 0, 0])
        np.testing.assert_allclose(faces, [first, second] if row["success"] else np.empty((0, 5)), atol=1e-3)
    assert not containers(engine)
