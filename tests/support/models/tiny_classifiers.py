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


def sound_classifier(
    folder: Path, family: str = "wav2vec2", labels: Sequence[str] = LABELS, problem: str | None = None, **more: Any
) -> Path:
    """A model of sound with a head: wav2vec2, ast (of 0.4 s), whisper (of 2 s), wav2vec2_bert; clap without one."""
    import_torchvision()
    import transformers as t

    torch.manual_seed(0)
    said = labels_of(labels, problem) | more
    strided = {"conv_dim": [8] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "vocab_size": 8}
    tower = {"depths": [1, 1], "num_attention_heads": [2, 2], "patch_embeds_hidden_size": 16, "hidden_size": 32}
    whisper = {"d_model": WIDTH, "encoder_layers": DEPTH, "decoder_layers": 1, "encoder_attention_heads": 2}
    whisper |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 16}
    whisper |= dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0)
    made: dict[str, Any] = {
        "wav2vec2": lambda: (
            t.Wav2Vec2ForSequenceClassification(
                t.Wav2Vec2Config(**_BLOCKS, **strided, **said, feat_extract_norm="layer", classifier_proj_size=12)
            ),
            t.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True),
        ),
        "ast": lambda: (
            t.ASTForAudioClassification(t.ASTConfig(**_BLOCKS, **said, max_length=40, num_mel_bins=32)),
            t.ASTFeatureExtractor(max_length=40, num_mel_bins=32),
        ),
        "whisper": lambda: (
            t.WhisperForAudioClassification(t.WhisperConfig(**whisper, **said, max_source_positions=100)),
            t.WhisperFeatureExtractor(chunk_length=2),
        ),
        "wav2vec2_bert": lambda: (
            t.Wav2Vec2BertForSequenceClassification(t.Wav2Vec2BertConfig(**_BLOCKS, **said, classifier_proj_size=12)),
            t.SeamlessM4TFeatureExtractor(),
        ),
        "clap": lambda: (
            t.ClapModel(
                t.ClapConfig(
                    text_config={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 16}
                    | {"intermediate_size": 16, "max_position_embeddings": 16},
                    audio_config={**tower, "spec_size": 64, "num_mel_bins": 16, "enable_fusion": False},
                    projection_dim=12,
                )
            ),
            t.ClapFeatureExtractor(feature_size=16, max_length_s=1, truncation="rand_trunc"),
        ),
    }
    model, processor = made[family]()
    _telling(model).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def speech_regression(folder: Path, labels: Sequence[str] = ("arousal", "dominance", "valence")) -> Path:
    """wav2vec 2.0 with a head of its authors' code, as the field publishes them: weights plus config, no code."""
    from safetensors.torch import load_file, save_file

    sound_classifier(folder, "wav2vec2", labels, "regression")
    state = {name: each for name, each in load_file(folder / "model.safetensors").items() if name.startswith("wav2")}
    generator = torch.Generator().manual_seed(1)
    for name, size in {"dense": WIDTH, "out_proj": len(labels)}.items():
        state[f"classifier.{name}.weight"] = torch.randn(size, WIDTH, generator=generator)
        state[f"classifier.{name}.bias"] = torch.randn(size, generator=generator)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
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
