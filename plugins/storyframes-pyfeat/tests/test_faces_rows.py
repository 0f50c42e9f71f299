"""What the program makes of py-feat's results: rows under the right names, of the largest face, without py-feat."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from storyframes_pyfeat import extractor
from storyframes_pyfeat.extractor import SPEC
from storyframes_pyfeat.program import columns

from tasks.models.libraries import import_torchvision

PROGRAM = Path(extractor.__file__).parent / "program"
# What the program imports of py-feat, which is in an environment of its own.
IMPORTED = {
    "__init__": "raise ImportError('this imports all of py-feat')",
    "detector_v2": "Detectorv2 = None",
    "utils": "",
    "face_detectors/Retinaface/Retinaface_test": "",
    "multitask/heads_v26": "",
}


@pytest.fixture
def private_home() -> None:
    """No cache of the plug-in's own tests, which would be that of all tests after these in the same process."""


@pytest.fixture
def faces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the program."""
    for name, code in IMPORTED.items():
        path = tmp_path / f"feat/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # the program sets it
    monkeypatch.syspath_prepend(tmp_path)
    import_torchvision()  # before the modules are noted: it stays
    spec = importlib.util.spec_from_file_location("faces_of_the_program", PROGRAM / "faces.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"columns": columns}):
        spec.loader.exec_module(module)
    return module


class Detector:
    """Answers as py-feat's does: of two faces in the first frame, none in the second. Each column has its own value."""

    def detect_faces(self, images: torch.Tensor, face_detection_threshold: float) -> list[dict[str, torch.Tensor]]:
        assert (images.shape, face_detection_threshold) == ((2, 3, 4, 5), 0.5)
        two = torch.tensor([[0.0, 0, 2, 2], [1, 1, 4, 4]])
        nobody = torch.full((1, 4), torch.nan)
        return [
            {"faces": boxes + 10, "boxes": boxes, "new_boxes": boxes + 20, "scores": boxes[:, 0] + 0.5}
            for boxes in (two, nobody)
        ]

    def forward(self, kept: list[dict[str, torch.Tensor]], batch: dict[str, Any]) -> pd.DataFrame:
        assert kept[0]["boxes"].tolist() == [[1, 1, 4, 4]]  # the larger, though it comes second
        assert kept[0]["scores"].tolist() == [1.5]
        assert [len(frame["boxes"]) for frame in kept] == [1, 1]
        names = [f"{axis}_{number}" for axis in "xy" for number in range(68)]
        names += [*columns.SCORE, *columns.BOX, *columns.GAZE, *columns.POSE, *columns.AFFECT]
        names += [*columns.BLENDSHAPES, *columns.EMOTION, *columns.AU]
        return pd.DataFrame([np.arange(len(names)), np.arange(len(names)) + 0.5], columns=names)


def test_each_array_has_the_columns_of_its_name_and_the_largest_face(faces: Any) -> None:
    made = object.__new__(faces.Faces)
    made._detector, made._threshold = Detector(), 0.5
    rows = made.rows_of(np.zeros((2, 4, 5, 3), np.uint8))
    assert (rows["found"].tolist(), rows["faces"].tolist()) == ([1, 0], [2, 0])
    assert rows["landmarks_2d"][0, 67].tolist() == [67, 135]  # x, y
    assert rows["score"][0] == 136
    assert np.isnan(rows["score"][1])
    places = {"box": 137, "gaze": 141, "head_pose": 143, "affect": 146, "blendshapes": 148, "emotion": 200, "au": 207}
    for name, first in places.items():
        wanted = np.arange(first, first + len(SPEC.arrays[name].columns))
        assert rows[name].tolist() == [wanted.tolist(), (wanted + 0.5).tolist()], name
    stored = {name: (spec.shape, np.dtype(spec.dtype)) for name, spec in SPEC.arrays.items()}
    assert {name: (values.shape[1:], values.dtype) for name, values in rows.items()} == stored


def test_of_boxes_that_overlap_the_best_of_each_group_stays(faces: Any) -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 4], [0, 0, 10, 10], [20, 20, 30, 30]])
    scores, groups = torch.tensor([0.5, 0.9, 0.8, 0.6, 0.1]), torch.tensor([0, 0, 0, 1, 0])
    # The first overlaps the second by 9/11, the third by 4/11 or less, the fourth is of another group.
    assert faces.batched_nms(boxes, scores, groups, 0.5).tolist() == [1, 2, 3, 4]
    assert faces.batched_nms(boxes[:0], scores[:0], groups[:0], 0.5).tolist() == []
