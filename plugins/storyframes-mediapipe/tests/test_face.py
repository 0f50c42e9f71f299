"""``face`` is MediaPipe's Face Mesh, for the right frames, from one command and one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from storyframes_mediapipe.landmarks import FACE
from support.commands import storyframes
from support.studies import extract_session, one_session_study

import storyframes as reader
from storyframes.face_tracking import face_landmarks, face_rule
from tasks.extractors.openface.csv_output import read_openface_csv
from tasks.media.recording import read_frames
from tasks.media.upright import write_lossless

ROOT = Path(__file__).parents[3]
FIRST, FRAMES = 300, 60  # of a recording of the demo: its last four seconds
LEFT, BACK = 36, 48  # about when the face leaves the picture, and when it is back

# At night: an environment with MediaPipe is installed.
pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def faces_python() -> Path:
    """The interpreter of the environment, which the command makes."""
    made = storyframes("extractors", "install", "faces", environment=os.environ)
    assert made.returncode == 0, made.stderr
    assert storyframes("extractors", "install", "face", environment=os.environ).stdout == made.stdout
    return Path(made.stdout.strip()) / "bin/python"


@pytest.fixture(scope="module")
def rgb(demo_study: Path) -> np.ndarray:
    return np.concatenate([batch.rgb for batch in read_frames(demo_study / "videos/p01-s01.avi", 8)])[FIRST:]


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory, rgb: np.ndarray, faces_python: Path) -> dict[str, np.ndarray]:
    """The end of a session of the demo: a portrait that moves."""
    folder = tmp_path_factory.mktemp("end")
    write_lossless(folder / "end.avi", np.ascontiguousarray(rgb[..., ::-1]), 15.0)
    study = one_session_study(folder / "study", folder / "end.avi")
    _, outcomes = extract_session(study, folder / "features", "frames", "face", session_id="s1")
    assert outcomes["face"].status == "done", outcomes["face"].reason
    version = json.loads((folder / "features/s1/face/current.json").read_text())["version"]
    group = zarr.open_group(folder / "features/s1/face" / version, mode="r")
    return {name: np.asarray(group[name]) for name in group.array_keys()}


DIRECTLY = """
import sys, numpy as np
from mediapipe.python.solutions.face_mesh import FaceMesh
frames, points = np.load(sys.argv[1]), []
with FaceMesh(refine_landmarks=True) as mesh:
    for frame in frames:
        faces = mesh.process(frame).multi_face_landmarks
        marks = faces[0].landmark if faces else []
        points.append([(mark.x, mark.y, mark.z) for mark in marks] or np.full((478, 3), np.nan))
np.save(sys.argv[2], np.array(points))
"""


def test_the_values_are_mediapipes_to_the_bit(
    extracted: dict[str, np.ndarray], rgb: np.ndarray, faces_python: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "rgb.npy", rgb)
    command = [str(faces_python), "-I", "-c", DIRECTLY, str(tmp_path / "rgb.npy"), str(tmp_path / "out.npy")]
    subprocess.run(command, check=True, capture_output=True)
    direct = np.load(tmp_path / "out.npy")
    height, width = rgb.shape[1:3]
    np.testing.assert_array_equal(extracted["face_2d"], (direct[..., :2] * (width, height)).astype(np.float32))
    np.testing.assert_array_equal(extracted["face_z"], direct[..., 2].astype(np.float32))
    moved = np.abs(np.diff(extracted["face_2d"][:LEFT], axis=0)).max(axis=(1, 2))
    assert (moved > 0.01).mean() > 0.9  # so a shift by one frame would show


def test_where_no_face_is_there_are_no_landmarks(extracted: dict[str, np.ndarray]) -> None:
    found = extracted["found"]
    gone = np.flatnonzero(found == 0)
    assert len(gone)
    assert ((gone >= LEFT) & (gone < BACK + 12)).all()
    for name in ("face_2d", "face_z"):
        rows = extracted[name].reshape(FRAMES, -1)
        np.testing.assert_array_equal(np.isfinite(rows).all(axis=1), found == 1)
        np.testing.assert_array_equal(np.isfinite(rows).any(axis=1), found == 1)


def test_the_face_is_where_openface_saw_it(extracted: dict[str, np.ndarray], demo_study: Path) -> None:
    """Two tools that know nothing of each other: pixels, sides and frames are right, irises among them."""
    values = np.concatenate(list(read_openface_csv(demo_study / "openface/p01-s01.csv.gz", FIRST + FRAMES)))[FIRST:]
    columns = list(reader.FEATURES["openface"].columns)
    both = (values[:, columns.index("success")] == 1) & (extracted["found"] == 1)
    assert both.sum() > 40
    eyes = {side: [f"eye_lmk_{{}}_{number}" for number in range(first, first + 8)] for side, first in SIDES.items()}
    marks = {"mesh_1": ["{}_30"], "mesh_33": ["{}_36"], "mesh_263": ["{}_45"], "mesh_152": ["{}_8"]}
    marks |= {f"{side}_iris_0": names for side, names in eyes.items()}
    for name, theirs in marks.items():
        xy = [values[:, [columns.index(mark.format(axis)) for mark in theirs]].mean(axis=1) for axis in "xy"]
        apart = np.linalg.norm(extracted["face_2d"][:, FACE.index(name)] - np.stack(xy, axis=1), axis=1)[both]
        assert np.median(apart) < 8, (name, np.median(apart))


SIDES = {"right": 0, "left": 28}  # the first of the eye's own landmarks in OpenFace's columns


def test_it_says_where_the_face_is() -> None:
    """``crop = "face"`` with ``landmarks = "face"``, ``speaking`` with its mouth, and reports need no more."""
    from storyframes_mediapipe.face import Face

    landmarks, rule = face_landmarks(Face.spec), face_rule(Face.spec)
    assert landmarks
    assert rule
    assert (landmarks.array, len(landmarks.places), rule.lost_where) == ("face_2d", 478, "found")


def test_the_second_example_of_the_readme(
    faces_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r'^print\(storyframes\.extract\(.*"face".*$', (ROOT / "README.md").read_text(), re.MULTILINE)
    (tmp_path / "storyframes-demo").symlink_to(ROOT / "demo")
    monkeypatch.chdir(tmp_path)
    exec(f"import storyframes\n{code}", {})
    assert capsys.readouterr().out.strip() == code.rpartition("# ")[2] == "(360, 1437)"


def test_without_the_environment_the_command_is_named(tmp_path: Path) -> None:
    elsewhere = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    listed = storyframes("extractors", "list", "--json", environment=elsewhere)
    (face,) = (line for line in json.loads(listed.stdout)["extractors"] if line["feature"] == "face")
    assert "'storyframes extractors install faces'" in face["missing"]
