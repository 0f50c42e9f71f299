"""Frames in, detections out, with models that see nobody or somebody everywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.dope.blank_model import blank_content, expect_everywhere, saved, with_random_backbone
from support.messages import naming

from tasks.extractors.base import ExtractionError
from tasks.extractors.dope.checkpoint import Checkpoint, load_checkpoint
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.people import ParticipantTracker
from tasks.extractors.dope.settings import DopeSettings, PostProcessing
from tasks.extractors.settings import EngineName, Precision
from tasks.models.libraries import import_openvino

# What comes after the layers is the same for both engines, and torch's are there sooner.
# Few boxes: most of a frame's time goes into its boxes.
SMALL = DopeSettings(engine="torch", min_size=64, max_size=96, rpn_post_nms_top_n=20)


def model(tmp_path: Path, content: dict[str, Any]) -> Checkpoint:
    return load_checkpoint(saved(content, tmp_path / "model.pth.tgz"))


def crowd() -> dict[str, Any]:
    """A body, a left hand and a face in every box; the hand in a corner, so that it is at no wrist."""
    content = blank_content({Part.BODY: 2, Part.HAND: 7, Part.FACE: 4}, hand_ppi_kwargs={"K": 3})
    for part, anchor_pose in ((Part.BODY, 1), (Part.HAND, 5), (Part.FACE, 0)):
        expect_everywhere(content, part, anchor_pose)
        poses = torch.rand(content["state_dict"][f"roi_heads.{part.value}_anchor_poses"].shape)
        content["state_dict"][f"roi_heads.{part.value}_anchor_poses"] = poses
    return content


@pytest.mark.slow
@pytest.mark.parametrize("how", PostProcessing)
def test_nobody(tmp_path: Path, how: PostProcessing) -> None:
    settings = SMALL.model_copy(update={"post_processing": how})
    found = DopeDetector(model(tmp_path, blank_content()), settings).detect(np.zeros((2, 48, 64, 3), np.uint8))
    assert [len(frame.parts[part]) for frame in found for part in Part] == [0] * 6
    poses = ParticipantTracker().follow(found)
    assert poses.n_detected.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert np.isnan(poses.body_2d).all()
    assert np.isnan(poses.hands_score).all()


@pytest.mark.slow
@pytest.mark.parametrize("how", PostProcessing)
def test_many_persons_of_any_number_of_anchor_poses(tmp_path: Path, how: PostProcessing) -> None:
    larger = {"min_size": 160, "max_size": 160, "rpn_post_nms_top_n": 50}
    settings = SMALL.model_copy(update=larger | {"post_processing": how})
    found = DopeDetector(model(tmp_path, crowd()), settings).detect(np.zeros((1, 160, 160, 3), np.uint8))[0]
    for part, label in ((Part.BODY, 1), (Part.HAND, 5), (Part.FACE, 0)):
        assert len(found.parts[part]) > 2
        assert (found.parts[part].label == label).all()
        assert (np.diff(found.parts[part].score) <= 0).all()
    assert not found.hand_is_right.any()
    # What tells the two methods apart: suppression averages nothing, integration does where so many agree.
    members = np.concatenate([found.parts[part].members for part in Part])
    assert (members.max() == 1) == (how is PostProcessing.NMS)


def test_no_frames(tmp_path: Path) -> None:
    detector = DopeDetector(model(tmp_path, blank_content()), SMALL)
    assert detector.detect(np.zeros((0, 48, 64, 3), np.uint8)) == []
    assert ParticipantTracker().follow([]).body_2d.shape == (0, 13, 2)


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (3, 47), (33, 31)])
def test_tiny_and_odd_frames(tmp_path: Path, shape: tuple[int, int]) -> None:
    """Poses follow the size of the frame they are found in."""
    detector = DopeDetector(model(tmp_path, crowd()), SMALL.model_copy(update={"max_size": 600}))
    body = detector.detect(np.zeros((1, *shape, 3), np.uint8))[0].parts[Part.BODY]
    assert len(body) >= 1
    assert np.isfinite(body.pose2d).all()
    assert body.pose2d.min() >= 0, "anchor poses are within their boxes, and these within the frame"
    assert (body.pose2d.max((0, 1)) <= np.array(shape[::-1]) + 1e-3).all()


@pytest.mark.parametrize(
    "frames", [np.zeros((48, 64, 3), np.uint8), np.zeros((2, 48, 64), np.uint8)], ids=["one frame", "grey"]
)
def test_wrong_frames(tmp_path: Path, frames: np.ndarray) -> None:
    with pytest.raises(ValueError, match="it must be RGB, uint8"):
        DopeDetector(model(tmp_path, blank_content()), SMALL).detect(frames)


@pytest.mark.parametrize("engine", [EngineName.TORCH, pytest.param(EngineName.OPENVINO, marks=pytest.mark.slow)])
def test_no_box_at_all(tmp_path: Path, engine: EngineName) -> None:
    """Boxes shrunk to nothing are dropped before any pose is looked for."""
    content = crowd()
    shrinking = torch.zeros(60)
    shrinking[2::4] = -50  # the width
    content["state_dict"]["rpn.head.bbox_pred.bias"] = shrinking
    settings = SMALL.model_copy(update={"engine": engine})
    found = DopeDetector(model(tmp_path, content), settings).detect(np.zeros((2, 48, 64, 3), np.uint8))
    assert [len(frame.parts[part]) for frame in found for part in Part] == [0] * 6


def test_settings_override_the_file(tmp_path: Path) -> None:
    content = blank_content()
    content["dope_kwargs"] |= {"min_size": 400, "rpn_post_nms_top_n_test": 50}
    checkpoint = model(tmp_path, content)
    assert DopeDetector(checkpoint, DopeSettings(engine="torch")).options.min_size == 400
    options = DopeDetector(checkpoint, DopeSettings(engine="torch", min_size=300, rpn_post_nms_top_n=7)).options
    assert (options.min_size, options.max_size, options.rpn_post_nms_top_n) == (300, 1333, 7)
    with pytest.raises(ValueError, match=naming("max_size = 200", "min_size", 400)):
        DopeDetector(checkpoint, DopeSettings(max_size=200))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_norm_eps", -1),
        ("batch_norm_eps", float("nan")),
        ("frames_per_pass", 0),
        ("boxes_per_pass", 0),
        ("device", "gpu"),
        ("min_siz", 300),
    ],
)
def test_wrong_settings(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        DopeSettings(**{name: value})


def test_where_it_runs_and_how_many_frames_at_once() -> None:
    assert DopeSettings(device="cpu").frames_at_once == 1
    assert DopeSettings(device="cuda").frames_at_once == 8
    assert DopeSettings(device="cuda", frames_per_pass=3).frames_at_once == 3
    assert DopeSettings().torch_device == ("cuda" if torch.cuda.is_available() else "cpu")


def test_epsilon_of_published_models() -> None:
    assert DopeSettings().eps(half=False) == 0.0
    assert DopeSettings().eps(half=True) == 1e-5
    assert DopeSettings(batch_norm_eps=1e-3).eps(half=True) == 1e-3


# --- engines ---------------------------------------------------------------------------------------------------------


def test_auto_is_openvino_on_a_processor_and_torch_on_a_gpu_or_without_openvino(monkeypatch) -> None:
    cpu, cuda = DopeSettings(device="cpu"), DopeSettings(device="cuda")
    assert (cpu.resolved().engine, cpu.resolved().precision) == (EngineName.OPENVINO, Precision.FLOAT32)
    assert DopeSettings().resolved().torch_device == "cpu", "planning knows of no worker's GPU"
    assert (cuda.resolved().engine, cuda.resolved().precision) == (EngineName.TORCH, None)
    monkeypatch.setattr("tasks.extractors.dope.settings.find_spec", lambda name: None)
    assert cpu.resolved().engine == cpu.engine_here == EngineName.TORCH
    asked = DopeSettings(precision="bfloat16")
    assert asked.resolved().engine == asked.engine_here == EngineName.OPENVINO, "another engine would be in silence"


@pytest.mark.parametrize(
    "together",
    [
        {"engine": "openvino", "device": "cuda"},
        {"precision": "bfloat16", "engine": "torch"},
        {"precision": "bfloat16", "device": "cuda"},
    ],
)
def test_settings_that_do_not_go_together(together: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="on\\s+processors"):
        DopeSettings(**together)


@pytest.mark.slow
def test_without_openvino_its_engine_says_so(tmp_path: Path, monkeypatch) -> None:
    checkpoint = model(tmp_path, blank_content())
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ExtractionError, match=naming("[dope] engine = 'openvino'", "not installed")):
        DopeDetector(checkpoint, DopeSettings(engine="openvino"))


@pytest.mark.slow
def test_bfloat16_is_computed_or_refused_never_replaced(tmp_path: Path) -> None:
    """Coarse where the processor has it; an error that names the rule where it has not."""
    content, size = with_random_backbone(blank_content()), {"min_size": 64, "max_size": 96}
    checkpoint, settings = model(tmp_path, content), DopeSettings(precision="bfloat16", **size)
    if "BF16" not in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(ExtractionError, match=naming("[dope] precision = 'bfloat16'", "set precision = 'float32'")):
            DopeDetector(checkpoint, settings)
        return
    pixels = torch.randn(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    coarse, of_torch = (
        DopeDetector(checkpoint, those).network.layers.of_frames(pixels).features
        for those in (settings, DopeSettings(engine="torch", **size))
    )
    assert of_torch.norm() > 1, "the model sees something"
    assert 1e-4 < (coarse - of_torch).norm() / of_torch.norm() < 0.05
