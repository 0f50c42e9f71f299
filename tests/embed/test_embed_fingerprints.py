"""Fingerprints of ``[[embed]]`` sections: those of older stores are kept, and scores have settings of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.extractors.base import InputFile, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractors

CONFIGS: dict[str, dict[str, Any]] = {
    "image": {"model_type": "vit"},
    "text": {"model_type": "bert"},
    "audio": {"model_type": "wav2vec2", "conv_kernel": [10, 3], "conv_stride": [5, 2], "feat_extract_norm": "layer"},
    "video": {"model_type": "videomae", "num_frames": 4, "image_size": 32},
}
BEFORE: list[tuple[str, str, dict[str, Any], str]] = [
    ("", "image", {"engine": "torch"}, "ef900799acd941e4105be4b4a45cf9de1c6aba050751d547fbee6efd61eb526d"),
    (
        "",
        "image",
        {"engine": "torch", "layer": [1, 2], "pool": "mean", "crop": "face", "dtype": "float32"},
        "dfa4e7aa6b24179ca2798ef219ad9ea0dafde07fb592101d498870a4819115e9",
    ),
    ("", "text", {"pool": "cls"}, "f9a69fd4c80dce5ffbf0b300976e8cebb5e0bf3fff88e2758db55fe0a7802a8a"),
    (
        "",
        "text",
        {"pool": "mean", "layer": [1, -1], "prompt": "query: ", "precision": "bfloat16"},
        "7ec1f7a05c78b1e118e29bd4629621c778d7b1329498545770d5bd9e6c4230d3",
    ),
    ("", "audio", {}, "2929fed02db86e76a03252ef8b8711212b263af558732df631db554dd5b963f7"),
    (
        "",
        "audio",
        {"layer": [0, 1], "pool": "mean", "chunk_s": 10.0, "context_s": 1.0},
        "353cc0a41b0fb7b0be72964d7e99f84ca2421cb5abaaa9e806179cd7a0ab4ef9",
    ),
    ("", "video", {"window_s": 1.0}, "0a287a3d9ad1d4593e51964a16cb2981d6af1ae52dedfcd1e616195beee6a3f0"),
    (
        "",
        "video",
        {"window_s": 2.0, "stride_s": 0.5, "layer": 1},
        "4d73de6de1b802ab9fa20d620e3051dc7c7e4f91f9cbdee7ad63ebf1a2dfe1a0",
    ),
    ("stories", "text", {"pool": "cls"}, "758a407d5d762890843dcb3a50a4f3c492690b3aa637cba12557dc6c76f21cdc"),
]
"""The unit (the stories, or any session), a section, and its fingerprint before heads were read (commit 93b2dea5)."""


@pytest.mark.parametrize(("unit", "kind", "more", "digest"), BEFORE)
def test_sections_without_scores_keep_their_fingerprints(
    tmp_path: Path, unit: str, kind: str, more: dict[str, Any], digest: str
) -> None:
    config = {"model_type": "", "hidden_size": 4, "num_hidden_layers": 2} | CONFIGS[kind]
    (tmp_path / kind).mkdir()
    (tmp_path / kind / "config.json").write_text(json.dumps(config))
    (tmp_path / kind / "preprocessor_config.json").write_text('{"sampling_rate": 16000, "do_normalize": true}')
    (tmp_path / kind / "model.safetensors").write_bytes(b"weights")
    section = {"name": "tiny", "kind": kind, "source": f"path:{tmp_path / kind}", **more}
    inputs = dict(zip(("video", "audio", "transcript", "stories", "openface"), "abcde", strict=True))
    files = {name: InputFile(Path(name), name, letter * 64, 1, 1) for name, letter in inputs.items()}
    extractors = build_extractors(ExtractorsSettings.model_validate({"embed": [section]}), unit)
    assert extractors["tiny"].fingerprint(Source("s", files)).digest == digest


def test_scores_are_in_the_fingerprint_and_what_they_do_not_depend_on_is_not() -> None:
    section = {"name": "said", "kind": "text", "source": "path:/m", "output": "scores"}
    (settings,) = ExtractorsSettings.model_validate({"embed": [section]}).embed
    assert settings.value_settings() == {
        "precision": "float32",
        "kind": "text",
        "revision": None,
        "output": ["scores"],
        "activation": None,
        "prompt": "",
        "max_pieces": None,
    }


def test_the_order_of_outputs_does_not_matter() -> None:
    section = {"name": "said", "kind": "text", "source": "path:/m", "output": ["scores", "hidden"], "pool": "cls"}
    (settings,) = ExtractorsSettings.model_validate({"embed": [section]}).embed
    assert settings.value_settings()["output"] == ["hidden", "scores"]
