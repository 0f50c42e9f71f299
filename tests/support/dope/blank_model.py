"""Model files for tests: every tensor is one number, repeated, so that a file has a few kilobytes and sees nothing.

:func:`with_random_backbone` makes one that sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tasks.extractors.dope.checkpoint import expected_shapes
from tasks.extractors.dope.joints import Part

ANCHORS = {Part.BODY: 3, Part.HAND: 2, Part.FACE: 1}
CERTAIN = 20.0  # a logit that leaves the other classes nothing


def blank_content(anchors: Mapping[Part, int] | None = None, **replaced: Any) -> dict[str, Any]:
    """What a model file holds whose network sees background everywhere."""
    anchors = anchors or ANCHORS
    state_dict = {
        key: torch.tensor(1.0 if key.endswith("running_var") else 0.0).expand(shape)
        for key, shape in expected_shapes(anchors).items()
    }
    content: dict[str, Any] = {
        "half": False,
        "dope_kwargs": {"num_anchor_poses": {part.value: count for part, count in anchors.items()}},
        "state_dict": state_dict,
        **{f"{part.value}_ppi_kwargs": {} for part in Part},
    }
    for part in Part:
        expect_everywhere(content, part, anchor_pose=None)
    return content | replaced


def expect_everywhere(content: dict[str, Any], part: Part, anchor_pose: int | None) -> None:
    """Lets the network see one anchor pose, or background (None), in every box."""
    bias = f"roi_heads.dope_predictor.{part.value}_cls_score.bias"
    logits = torch.zeros(content["state_dict"][bias].shape)
    logits[0 if anchor_pose is None else anchor_pose + 1] = CERTAIN
    content["state_dict"][bias] = logits


def with_random_backbone(content: dict[str, Any]) -> dict[str, Any]:
    """The content with a backbone of random convolutions, whose features depend on the picture."""
    generator = torch.Generator().manual_seed(0)
    state_dict, drawn = dict(content["state_dict"]), {}
    for key, tensor in state_dict.items():
        _, of_backbone, name = key.partition("resnet_backbone.")  # in the file twice, with the same weights
        if not of_backbone:
            continue
        if name not in drawn and tensor.ndim == 4:
            fan_in = tensor[0].numel()
            drawn[name] = torch.randn(tensor.shape, generator=generator) * (2 / fan_in) ** 0.5
        elif name not in drawn and tensor.ndim == 1 and name.endswith("weight"):  # of a batch normalisation
            drawn[name] = torch.full(tensor.shape, 0.5)  # keeps the values finite through 50 layers
        state_dict[key] = drawn.get(name, tensor)
    return content | {"state_dict": state_dict}


def saved(content: Any, path: Path, zipped: bool = True) -> Path:
    """The content as a model file; not zipped is the layout of the published ones."""
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    return path
