"""The paragraph on methods in a release's card, and what it cites."""

from __future__ import annotations

from typing import Any

import pytest

from storyframes_release.release.methods import bibtex, methods, model_of
from storyframes_release.release.provenance import UNTRAINED

COMMIT = "0123456789abcdef" * 2 + "01234567"
MINI_LM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.mark.parametrize(
    ("name", "groups", "provenance", "begins"),
    [
        (
            "openface",
            ("action_units", "pose", "measurements"),
            {"settings": {"backend": "csv"}, "code": "storyframes 0.1.0", "extractor": 3},
            "We extracted action units and head pose with OpenFace 2 (its version is not recorded) [@openface], in "
            "storyframes 0.1.0 (extractor 3; backend csv).",
        ),
        (
            "openface",
            ("gaze",),
            {"settings": {"backend": "container"}, "models": {"image": "ab" * 32}},
            "We extracted gaze with OpenFace 2 [@openface], in an unknown version of storyframes (backend container; "
            "image sha256 abababababab…).",
        ),
        (
            "resnet50",
            (),
            {"settings": {"weights": "IMAGENET1K_V1", "engine": "torch"}, "models": {"resnet50": UNTRAINED}},
            "We extracted embeddings of frames with ResNet-50 with random weights, not those of IMAGENET1K_V1 "
            "[@resnet] [@torchvision]",
        ),
        (
            "opensmile",
            (),
            {"settings": {"feature_set": "eGeMAPSv02"}, "tools": {"opensmile": "2.5.0"}, "libraries": {"av": "17.0"}},
            "We extracted acoustic descriptors with openSMILE 2.5.0 [@opensmile] [@gemaps], in an unknown version of "
            "storyframes (feature_set eGeMAPSv02; av 17.0).",
        ),
        (
            "stories/sbert",
            (),
            {"models": {"model.safetensors": MINI_LM}},
            "We extracted sentence embeddings with Sentence-BERT all-MiniLM-L6-v2 [@sbert], in",
        ),
        (
            "sbert",
            (),
            {"models": {"model.safetensors": "cd" * 32}},
            "We extracted sentence embeddings with Sentence-BERT [@sbert], in",
        ),
        (
            "voice",
            (),
            {"settings": {"kind": "audio", "source": "hf:facebook/wav2vec2-base", "layer": [7], "pool": "none"}},
            "We extracted embeddings of audio (`voice`) with hf:facebook/wav2vec2-base, layer 7, pool none "
            "[@transformers] [@facebook_wav2vec2_base], in",
        ),
        (
            "label.valence",
            (),
            {"settings": {"minimum": 1, "maximum": 5}},
            "We extracted the curve of ratings `label.valence` with storyframes, in",
        ),
        ("head", (), {"adopted": True, "code": "storyframes 0.1.0"}, "`head` was made elsewhere, by a program that"),
        ("synchrony_x", (), {"derived": True}, "`synchrony_x` was computed from other features, in a way"),
        (
            "ours",
            (),
            {"settings": {"kind": "image", "layer": [-1]}, "settings_left_out": 2},
            "We extracted embeddings of image (`ours`) with a model whose name is not public, layer -1 "
            "[@transformers], in an unknown version of storyframes (2 settings that are not public).",
        ),
    ],
)  # fmt: skip
def test_a_sentence_says_what_made_a_feature(
    name: str, groups: tuple[str, ...], provenance: dict[str, Any], begins: str
) -> None:
    sentence, cited = methods(name, groups, provenance)
    assert sentence.startswith(begins)
    entries = bibtex(cited)
    assert entries.count("\n}") == len(cited) + 1  # storyframes itself
    for key in sentence.split("[@")[1:]:
        assert f"{{{key.partition(']')[0]}," in entries


def test_a_model_of_the_hub_is_cited_with_its_revision() -> None:
    settings = {"kind": "image", "source": "timm:vit_tiny", "revision": COMMIT, "layer": [-1], "pool": "cls"}
    assert model_of({"settings": settings}) == "timm:vit_tiny, layer -1, pool cls"
    entries = bibtex(methods("v", (), {"settings": settings})[1])
    assert r"title = {timm/vit\_tiny}" in entries  # as LaTeX has it
    assert r"howpublished = {\url{https://huggingface.co/timm/vit_tiny}}" in entries
    assert f"note = {{revision {COMMIT}}}" in entries
