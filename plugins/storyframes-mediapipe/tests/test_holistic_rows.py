"""What the program makes of MediaPipe's results: rows of pixels under the right names, without MediaPipe itself."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from storyframes_mediapipe import extractor
from storyframes_mediapipe.extractor import SPEC

WIDTH, HEIGHT = 200, 100
IMPORTED = {
    "mediapipe": (),
    "mediapipe.tasks": (),
    "mediapipe.tasks.python": ("BaseOptions",),
    "mediapipe.tasks.python.vision": ("HolisticLandmarker", "HolisticLandmarkerOptions", "RunningMode"),
}


@pytest.fixture
def private_home() -> None:
    """No cache of the plug-in's own tests, which would be that of all tests after these in the same process."""


@pytest.fixture
def holistic(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the program; MediaPipe, which it imports, is in an environment of its own."""
    for name, attributes in IMPORTED.items():
        module = ModuleType(name)
        vars(module).update(dict.fromkeys(attributes))
        monkeypatch.setitem(sys.modules, name, module)
    path = Path(extractor.__file__).parent / "program/holistic.py"
    spec = importlib.util.spec_from_file_location("holistic_of_the_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def points(count: int, first: float) -> list[SimpleNamespace]:
    """Landmarks whose every number is another: x from ``first`` on, y 0.1 more, z -x, visibility x / 100."""
    places = [first + number / 1000 for number in range(count)]
    return [SimpleNamespace(x=x, y=x + 0.1, z=-x, visibility=x / 100) for x in places]


def results(**changes: list[SimpleNamespace]) -> SimpleNamespace:
    parts = {
        "pose_landmarks": points(33, 0.1),
        "pose_world_landmarks": points(33, 7.0),
        "face_landmarks": points(478, 0.2),
        "left_hand_landmarks": points(21, 0.5),
        "right_hand_landmarks": points(21, 0.7),
    }
    return SimpleNamespace(**parts | changes)


def test_each_landmark_is_in_pixels_of_its_own_axis_and_under_its_own_name(holistic: Any) -> None:
    rows = holistic.rows_of(results(), WIDTH, HEIGHT)
    assert (rows["found"], rows["parts"].tolist()) == (1, [1, 1, 1, 1])
    for name, last, first in (("body_2d", 32, 0.1), ("face_2d", 477, 0.2)):
        x = first + last / 1000
        assert rows[name][last] == pytest.approx([WIDTH * x, HEIGHT * (x + 0.1)], rel=1e-6), name
    assert rows["hands_2d"][:, 0] == pytest.approx(np.array([[100, 60], [140, 80]]), rel=1e-6)  # left, right
    assert rows["hands_z"][:, 20] == pytest.approx([-0.52, -0.72], rel=1e-6)
    assert rows["face_z"][1] == pytest.approx(-0.201, rel=1e-6)
    assert rows["body_3d"][1] == pytest.approx([7.001, 7.101, -7.001], rel=1e-6)  # of the world, no pixels
    assert rows["body_visibility"][0] == pytest.approx(0.001, rel=1e-6)
    stored = {name: (spec.shape, np.dtype(spec.dtype)) for name, spec in SPEC.arrays.items()}
    assert {name: (row.shape, row.dtype) for name, row in rows.items()} == stored


def test_what_was_not_found_is_nan_and_another_number_of_landmarks_is_refused(holistic: Any) -> None:
    rows = holistic.rows_of(results(face_landmarks=[], left_hand_landmarks=[]), WIDTH, HEIGHT)
    assert (rows["found"], rows["parts"].tolist()) == (1, [1, 0, 0, 1])
    assert np.isnan(rows["face_2d"]).all()
    assert np.isnan(rows["hands_2d"]).all(axis=(1, 2)).tolist() == [True, False]
    nobody = results(pose_landmarks=[], face_landmarks=[], left_hand_landmarks=[], right_hand_landmarks=[])
    assert holistic.rows_of(nobody, WIDTH, HEIGHT)["found"] == 0
    with pytest.raises(ValueError, match=r"468 .*478"):
        holistic.rows_of(results(face_landmarks=points(468, 0.2)), WIDTH, HEIGHT)
