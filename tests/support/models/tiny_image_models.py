"""Tiny models of pictures, made from configurations with random weights, in folders as their libraries save them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tasks.models.libraries import import_torchvision

SIDE = 32
_VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": SIDE,
    "patch_size": 8,
}


def _telling(model: Any) -> Any:
    """Weights so large that pictures are told apart."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3, generator=generator)
            elif name.endswith(("gamma", "layer_scale", "lambda1")):
                parameter.fill_(1)  # as drawn, blocks hardly do anything
    return model.eval()


def transformers_model(folder: Path, family: str) -> Path:
    """A folder that transformers loads: vit, dinov2, dinov2_with_registers, clip, siglip, swin, convnext, resnet."""
    import_torchvision()
    import transformers as t

    torch.manual_seed(0)
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    text |= {"vocab_size": 32, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    size = {"height": SIDE, "width": SIDE}
    bytes_ = {"image_mean": [0.4, 0.45, 0.5], "image_std": [0.2, 0.25, 0.3]}
    cropped = {"size": {"shortest_edge": 36}, "crop_size": size, **bytes_}
    families: dict[str, Callable[[], tuple[Any, Any]]] = {
        "vit": lambda: (t.ViTModel(t.ViTConfig(**_VIT)), t.ViTImageProcessor(size=size)),
        "vit_without_pooler": lambda: (
            t.ViTModel(t.ViTConfig(**_VIT), add_pooling_layer=False),
            t.ViTImageProcessor(size=size),
        ),
        "dinov2": lambda: (t.Dinov2Model(t.Dinov2Config(**_VIT)), t.BitImageProcessor(**cropped)),
        "dinov2_with_registers": lambda: (
            t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**_VIT, num_register_tokens=2)),
            t.BitImageProcessor(**cropped),
        ),
        "clip": lambda: (
            t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=_VIT, projection_dim=12)),
            t.CLIPImageProcessor(**cropped),
        ),
        "siglip": lambda: (
            t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=_VIT)),
            t.SiglipImageProcessor(size=size),
        ),
        "swin": lambda: (
            t.SwinModel(
                t.SwinConfig(image_size=SIDE, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4)
            ),
            t.ViTImageProcessor(size=size),
        ),
        "convnext": lambda: (
            t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1])),
            t.ConvNextImageProcessor(size={"shortest_edge": SIDE}, crop_pct=0.875),
        ),
        "resnet": lambda: (
            t.ResNetModel(t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1])),
            t.ConvNextImageProcessor(size={"shortest_edge": SIDE}, crop_pct=0.875),
        ),
        "vit_mae": lambda: (t.ViTMAEModel(t.ViTMAEConfig(**_VIT)), t.ViTImageProcessor(size=size)),
    }
    model, processor = families[family]()
    _telling(model).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


TRANSFORMERS = ("vit", "dinov2", "dinov2_with_registers", "clip", "siglip", "swin", "convnext")


def timm_model(folder: Path, family: str) -> Path:
    """A folder as timm has it on the hub: vit, resnet, convnext or swin."""
    import_torchvision()
    import timm
    from timm.models import save_for_hf

    torch.manual_seed(0)
    vit = {"img_size": SIDE, "patch_size": 8, "embed_dim": 16, "depth": 3, "num_heads": 2}
    models: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "vit": ("vit_tiny_patch16_224", vit, {"crop_pct": 0.9}),
        "vit_registers": (
            "vit_small_patch14_reg4_dinov2",
            {**vit, "reg_tokens": 2},
            {"crop_pct": 1.0, "mean": [0.4, 0.45, 0.5], "std": [0.2, 0.25, 0.3]},
        ),
        "resnet": ("test_resnet", {"channels": [4, 8, 8, 16]}, {"interpolation": "bilinear", "crop_pct": 0.875}),
        "convnext": ("test_convnext", {"dims": [8, 8, 16, 16]}, {"crop_mode": "squash"}),
        "swin": (
            "swin_tiny_patch4_window7_224",
            {"img_size": SIDE, "embed_dim": 8, "depths": [1, 1, 1], "num_heads": [2, 2, 2], "window_size": 2},
            {"crop_mode": "border", "crop_pct": 0.9},
        ),
    }
    name, arguments, data = models[family]
    model = _telling(timm.create_model(name, num_classes=7, **arguments))
    save_for_hf(
        model,
        folder,
        safe_serialization=True,
        model_args=arguments,
        data_config={"input_size": [3, SIDE, SIDE], **data},
    )
    return folder


TIMM = ("vit", "vit_registers", "resnet", "convnext", "swin")


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def torchvision_weights(path: Path, name: str) -> Path:
    """A file in torchvision's published form, whose network tells noise apart: its statistics are those of noise."""
    torch.manual_seed(3)
    network = import_torchvision().models.get_model(name, weights=None)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the plain mean of what is seen
    with torch.inference_mode():
        network.train()(torch.randn(4, 3, 64, 64))
    torch.save(network.state_dict(), path)
    return path
