"""Tiny models with heads, made from configurations with random weights, in folders as transformers saves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from support.models.tiny_text_models import DEPTH, LIMIT, WIDTH, make_tokenizer
from tasks.models.libraries import import_torchvision

LABELS = ("happy", "male speech, man speaking", "laughter")
SIDE = 32
_BLOCKS = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 2, "intermediate_size": 32}


def labels_of(labels: Sequence[str], problem: str | None) -> dict[str, Any]:
    """The arguments of a configuration."""
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": problem,
    }


def image_classifier(folder: Path, labels: Sequence[str] = LABELS, problem: str | None = None) -> Path:
    """A ViT that tells pictures apart."""
    import_torchvision()
    import transformers as t

    torch.manual_seed(0)
    config = t.ViTConfig(**_BLOCKS, image_size=SIDE, patch_size=8, **labels_of(labels, problem))
    _telling(t.ViTForImageClassification(config)).save_pretrained(folder)
    t.ViTImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def video_classifier(folder: Path, labels: Sequence[str] = LABELS, problem: str | None = None) -> Path:
    """A VideoMAE of four frames."""
    import_torchvision()
    import transformers as t

    torch.manual_seed(0)
    config = t.VideoMAEConfig(**_BLOCKS, image_size=SIDE, patch_size=16, num_frames=4, **labels_of(labels, problem))
    _telling(t.VideoMAEForVideoClassification(config)).save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    t.VideoMAEVideoProcessor(size={"shortest_edge": SIDE}, crop_size=size).save_pretrained(folder)
    return folder


def text_classifier(
    folder: Path, labels: Sequence[str] = LABELS, problem: str | None = None, family: str = "bert"
) -> Path:
    """An encoder of texts, or a decoder ("llama"), with a head."""
    import_torchvision()
    from transformers import AutoConfig, AutoModelForSequenceClassification

    torch.manual_seed(0)
    tokenizer = make_tokenizer(family)
    numbers = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "initializer_range": 0.5}
    config = AutoConfig.for_model(
        family, **_BLOCKS, **numbers, max_position_embeddings=LIMIT, **labels_of(labels, problem)
    )
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _telling(model: Any) -> Any:
    """Weights so large that inputs are told apart."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "conv" not in name:
                parameter.normal_(0, 0.3, generator=generator)
    return model.eval()
