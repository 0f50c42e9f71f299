"""Tiny models of videos, made from configurations with random weights, in folders as transformers saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tasks.models.libraries import import_torchvision

SIDE, WIDTH, DEPTH = 32, 16, 3
FRAMES = {"videomae": 4, "vjepa2": 4, "xclip": 4}
_BLOCKS = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 2, "patch_size": 16}


def video_model(folder: Path, family: str, **processor: Any) -> Path:
    """A folder that transformers loads: videomae, vjepa2 or xclip."""
    import_torchvision()
    import transformers as t

    torch.manual_seed(0)
    size: dict[str, Any] = {"height": SIDE, "width": SIDE}
    cropped = {"size": {"shortest_edge": 36}, "crop_size": size, "image_mean": [0.4, 0.45, 0.5]}
    frames = FRAMES[family]
    if family == "videomae":
        config = t.VideoMAEConfig(**_BLOCKS, intermediate_size=32, image_size=SIDE, num_frames=frames)
        model: Any = t.VideoMAEModel(config)
        made: Any = t.VideoMAEVideoProcessor(**cropped, **processor)
    elif family == "vjepa2":
        predictor = {"pred_hidden_size": 12, "pred_num_attention_heads": 1, "pred_num_hidden_layers": DEPTH}
        small = _BLOCKS | {"num_attention_heads": 1}
        model = t.VJEPA2Model(t.VJEPA2Config(**small, **predictor, crop_size=SIDE, frames_per_clip=frames))
        made = t.VJEPA2VideoProcessor(crop_size=SIDE, **processor)
    else:
        text = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        text |= {
            "vocab_size": 32,
            "max_position_embeddings": 8,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 1,
        }
        mit = {"mit_hidden_size": 12, "mit_intermediate_size": 16, "mit_num_hidden_layers": 1}
        vision = _BLOCKS | {"intermediate_size": 32, "image_size": SIDE, "num_frames": frames}
        vision |= mit | {"mit_num_attention_heads": 2}
        model = t.XCLIPModel(t.XCLIPConfig(text_config=text, vision_config=vision, projection_dim=12))
        made = t.VideoMAEImageProcessor(**cropped, **processor)
    _telling(model).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def _telling(model: Any) -> Any:
    """Weights so large that clips are told apart."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.2, generator=generator)
    return model.eval()
