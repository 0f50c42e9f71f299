"""Model files: right ones in every layout, and one clear error for each way to be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.dope.blank_model import ANCHORS, blank_content, saved
from support.messages import naming

from tasks.extractors.dope.checkpoint import CheckpointError, expected_shapes, load_checkpoint
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.options import GroupingRule, ppi_options


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_reads_both_layouts(tmp_path: Path, zipped: bool) -> None:
    checkpoint = load_checkpoint(saved(blank_content(), tmp_path / "model.pth.tgz", zipped))
    assert checkpoint.network.num_anchor_poses == ANCHORS
    assert checkpoint.half is False
    assert checkpoint.weights.parts[Part.FACE].anchor_poses.shape == (1, 84, 5)
    assert checkpoint.weights.rpn_head["conv.0.0.weight"].shape == (1024, 1024, 3, 3)


def test_a_model_has_555_tensors() -> None:
    assert len(expected_shapes(ANCHORS)) == 555


def test_reads_the_old_name_of_the_rpn_convolution(tmp_path: Path) -> None:
    content = blank_content()
    for name in ("weight", "bias"):
        tensor = content["state_dict"].pop(f"rpn.head.conv.0.0.{name}")
        content["state_dict"][f"rpn.head.conv.{name}"] = tensor + 2
    checkpoint = load_checkpoint(saved(content, tmp_path / "old.pth.tgz"))
    assert checkpoint.weights.rpn_head["conv.0.0.bias"][0] == 2


@pytest.mark.slow
def test_half_precision_weights_become_float32(tmp_path: Path) -> None:
    content = blank_content(half=True)
    content["state_dict"] = {key: value.half() for key, value in content["state_dict"].items()}
    checkpoint = load_checkpoint(saved(content, tmp_path / "half.pth.tgz"))
    assert checkpoint.half is True
    assert {tensor.dtype for tensor in checkpoint.weights.resnet.values()} == {torch.float32}


def test_stored_options_count(tmp_path: Path) -> None:
    content = blank_content()
    content["dope_kwargs"] |= {"min_size": 400, "rpn_post_nms_top_n_test": 50, "rpn_fg_iou_thresh": 0.9}
    content["dope_kwargs"]["pose2d_reg_weights"] = {"body": 1.0, "hand": 2.0, "face": 3.0}
    content["body_ppi_kwargs"] = {"K": 2, "iou_func": "torsoLR", "th_pose3D": 0.1, "verbose": True}
    checkpoint = load_checkpoint(saved(content, tmp_path / "model.pth.tgz"))
    assert checkpoint.network.min_size == 400
    assert checkpoint.network.rpn_post_nms_top_n == 50
    assert checkpoint.network.max_size == 1333
    assert checkpoint.network.pose2d_reg_weights[Part.HAND] == 2
    assert checkpoint.ppi[Part.BODY].first_kind == 2
    assert checkpoint.ppi[Part.BODY].rule is GroupingRule.TORSO_LR
    assert checkpoint.ppi[Part.BODY].th_pose3d == 0.1


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    content = blank_content(body_ppi_kwargs={"K": np.int64(2), "th_iou": np.float32(0.25), "score_th": np.float64(0.5)})
    options = load_checkpoint(saved(content, tmp_path / "model.pth.tgz")).ppi[Part.BODY]
    assert (options.first_kind, options.th_iou, options.score_th) == (2, 0.25, 0.5)
    assert type(options.first_kind) is int


def test_options_of_ppi_where_the_file_is_silent() -> None:
    options = ppi_options({}, Part.HAND, num_anchor_poses=10)
    assert (options.first_kind, options.score_th) == (11, 0.01)
    assert (options.th_pose3d, options.th_iou, options.min_mode_score) == (0.3, 0.2, 0.05)
    assert (options.th_persondetect, options.rule) == (0.002, GroupingRule.BBOX)


def wrong(**replaced: Any) -> dict[str, Any]:
    return blank_content(**replaced)


def without(key: str) -> dict[str, Any]:
    content = blank_content()
    del content[key]
    return content


def with_tensor(key: str, tensor: Any) -> dict[str, Any]:
    content = blank_content()
    content["state_dict"][key] = tensor
    return content


def with_one(value: float) -> torch.Tensor:
    tensor = torch.zeros(2, 21, 5)
    tensor[1, 7, 2] = value
    return tensor


def without_tensor(key: str) -> dict[str, Any]:
    content = blank_content()
    del content["state_dict"][key]
    return content


def with_network_option(key: str, value: Any) -> dict[str, Any]:
    content = blank_content()
    content["dope_kwargs"][key] = value
    return content


ANCHOR_POSES = "roi_heads.hand_anchor_poses"
FIRST_BIAS = "backbone.resnet_backbone.bn1.bias"
WRONG_CONTENT = {
    "list": ([1, 2], "holds a list; a DOPE model file holds a dict"),
    "no-half": (without("half"), "has no 'half'"),
    "no-weights": (without("state_dict"), "has no 'state_dict'"),
    "no-ppi": (without("face_ppi_kwargs"), "has no 'face_ppi_kwargs'"),
    "half-number": (wrong(half=1), "'half' is a int; it must be a bool"),
    "unknown-option": (with_network_option("colour", 1), r"unknown keys \['colour'\]; it must be some of"),
    "no-anchors": (wrong(dope_kwargs={}), "no 'num_anchor_poses'"),
    "two-parts": (with_network_option("num_anchor_poses", {"body": 3, "hand": 2}), "for body, hand, face"),
    "half-anchor": (
        with_network_option("num_anchor_poses", {"body": 3, "hand": 2.5, "face": 1}),
        "num_anchor_poses = .* whole numbers",
    ),
    "zero-anchors": (
        with_network_option("num_anchor_poses", {"body": 0, "hand": 2, "face": 1}),
        r"num_anchor_poses\[body\] = 0; it must be at least 1",
    ),
    "text-size": (with_network_option("min_size", "800"), "min_size = '800'; it must be a whole number"),
    "nan-option": (with_network_option("rpn_nms_thresh", float("nan")), "rpn_nms_thresh = nan; .* a finite number"),
    "two-means": (with_network_option("image_mean", [0.5, 0.5]), "image_mean = .*; it must be three numbers"),
    "max-below-min": (with_network_option("max_size", 700), "max_size = 700; it must be at least min_size, 800"),
    "unknown-ppi": (wrong(hand_ppi_kwargs={"th": 1}), r"hand_ppi_kwargs: unknown keys \['th'\]"),
    "unknown-rule": (wrong(body_ppi_kwargs={"iou_func": "giou"}), "iou_func = 'giou'; it must be one of"),
    "body-rule": (wrong(hand_ppi_kwargs={"iou_func": "torso"}), "'torso' for a hand; it must be 'bbox' or 'mje'"),
    "zero-distance": (wrong(body_ppi_kwargs={"th_pose3D": 0}), "th_pose3D = 0.0; it must be positive"),
    "missing-tensor": (without_tensor(ANCHOR_POSES), f"lacks 1 of 555 tensors, the first is '{ANCHOR_POSES}'"),
    "other-anchors": (with_tensor(ANCHOR_POSES, torch.zeros(4, 21, 5)), r"shape \(4, 21, 5\); it must be \(2, 21, 5\)"),
    "integers": (with_tensor(ANCHOR_POSES, torch.zeros(2, 21, 5, dtype=torch.int64)), "is a tensor of torch.int64"),
    "no-tensor": (with_tensor(ANCHOR_POSES, 3), "is a int; it must be a tensor of floats"),
    # one value of many: a check of extremes that passes over NaN would miss the first
    **{
        f"one-{value}": (with_tensor(ANCHOR_POSES, with_one(value)), "every weight must be finite")
        for value in (torch.nan, torch.inf, -torch.inf)
    },
    "variance": (
        with_tensor("backbone.resnet_backbone.bn1.running_var", torch.full((64,), -1.0)),
        "holds -1.0; a variance must not be negative",
    ),
    "two-resnets": (with_tensor(FIRST_BIAS, torch.ones(64)), "they must be copies of one ResNet-50"),
}


@pytest.mark.parametrize(("content", "message"), WRONG_CONTENT.values(), ids=WRONG_CONTENT.keys())
def test_wrong_content(tmp_path: Path, content: Any, message: str) -> None:
    path = saved(content, tmp_path / "wrong.pth.tgz")
    with pytest.raises(CheckpointError, match=message) as raised:
        load_checkpoint(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99])
def test_truncated_files(tmp_path: Path, kept: float, zipped: bool) -> None:
    path = saved(blank_content(), tmp_path / "model.pth.tgz", zipped)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    with pytest.raises(CheckpointError, match=naming("torch.save", "complete")) as raised:
        load_checkpoint(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("junk", [b"not a model", b"\x1f\x8b\x08\x00" * 50, b"PK\x03\x04" + bytes(200), bytes(1000)])
def test_files_that_are_not_torchs(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk.pth.tgz"
    path.write_bytes(junk)
    with pytest.raises(CheckpointError, match=naming("junk.pth.tgz", "torch")):
        load_checkpoint(path)


class Malicious:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return print, ("this must not run",)


def test_code_in_a_file_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(blank_content(extra=Malicious()), tmp_path / "malicious.pth.tgz")
    with pytest.raises(CheckpointError, match="torch cannot read it"):
        load_checkpoint(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["absent.pth.tgz", "."])
def test_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        load_checkpoint(tmp_path / name)
