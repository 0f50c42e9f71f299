"""Models of timm: from a folder with ``config.json`` and weights, as timm writes it to the hub."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.image.backbone import Backbone, as_tokens
from tasks.extractors.embed.image.weights import load_state
from tasks.models.libraries import import_torchvision


def import_timm() -> ModuleType:
    """timm, importable beside any build of torch."""
    import_torchvision()
    import timm

    return timm


class TimmBackbone(Backbone):
    """A model of timm; its layers are the stages that ``feature_info`` lists, blocks in a vision transformer.

    Args:
        model: with its weights, without its classifier.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.tells_layers = _gives_layers(model)
        self.layers = len(model.feature_info) if self.tells_layers else 1
        self.prefix = getattr(model, "num_prefix_tokens", 0) or 0
        self.has_class_token = getattr(model, "cls_token", None) is not None
        self._options = {"output_fmt": "NLC", "return_prefix_tokens": True} if self.prefix else {"output_fmt": "NCHW"}

    def check(self, layer: int) -> None:
        if layer == 0:
            raise ValueError("timm does not give what goes into the first layer: count from 1")
        if not self.tells_layers:
            raise ValueError("timm gives no layers of this model: set pool = 'model'")

    def states(self, pixels: torch.Tensor, wanted: Sequence[int]) -> list[torch.Tensor]:
        inner = sorted({layer for layer in wanted if layer < self.layers})
        found = {}
        if inner:
            found = dict(zip(inner, self._layers(pixels, [layer - 1 for layer in inner], norm=False), strict=True))
        if self.layers in wanted:
            (found[self.layers],) = self._layers(pixels, [self.layers - 1], norm=True)
        return [found[layer] for layer in wanted]

    def _layers(self, pixels: torch.Tensor, indices: list[int], *, norm: bool) -> list[torch.Tensor]:
        found = self.model.forward_intermediates(
            pixels, indices=indices, norm=norm, intermediates_only=True, stop_early=True, **self._options
        )
        return [
            torch.cat([state[1], state[0]], dim=1) if isinstance(state, tuple) else as_tokens(state) for state in found
        ]

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.model(pixels)


def _gives_layers(model: Any) -> bool:
    if not getattr(model, "feature_info", None) or not hasattr(model, "forward_intermediates"):
        return False
    return "indices" in inspect.signature(model.forward_intermediates).parameters


def load(folder: Path, weights: Path, section: str) -> TimmBackbone:
    """The model, float32, in evaluation mode.

    Raises:
        ExtractionError: there is no such architecture, or the weights are not this model's.
    """
    with torch.random.fork_rng(devices=[]):  # weights are drawn and thrown away; nobody's seed is to change
        model = _create(folder, section)
    load_state(model, weights)
    model.reset_classifier(0)
    return TimmBackbone(model.eval())


def data_config(folder: Path, section: str) -> dict[str, Any]:
    """How timm prepares images for the model.

    Raises:
        ExtractionError: there is no such architecture.
    """
    with torch.device("meta"):  # its shapes, without its weights
        model = _create(folder, section)
    return import_timm().data.resolve_model_data_config(model)


def _create(folder: Path, section: str) -> Any:
    timm = import_timm()
    config = json.loads((folder / "config.json").read_text())
    architecture, published = config["architecture"], dict(config.get("pretrained_cfg", config))
    if not timm.is_model(architecture):
        raise ExtractionError(
            f"{section} config.json wants the architecture {architecture!r}, which timm {timm.__version__} lacks"
        )
    published.pop("architecture", None)
    arguments = dict(config.get("model_args", {}))
    for name in ("num_classes", "global_pool"):
        if name in config:
            arguments.setdefault(name, config[name])
    try:
        return timm.create_model(architecture, pretrained=False, pretrained_cfg=published, **arguments)
    except (TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError) as error:
        raise ExtractionError(f"{section} timm cannot make {architecture!r} of config.json: {error}") from None
