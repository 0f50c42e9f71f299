"""Classification models of torchvision, with weights as torchvision publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.image.backbone import Backbone, as_tokens, outputs_of
from tasks.extractors.embed.image.weights import load_state
from tasks.models.libraries import import_torchvision

# By a child that such a model has: where its layers are. Theirs are the children of the one that is named, in order.
_LAYERS = {
    "encoder": "encoder.layers",  # ViT
    "trunk_output": "trunk_output",  # RegNet
    "blocks": "blocks",  # MaxViT
    "layers": "layers",  # MNASNet
    "features": "features",  # ConvNeXt, DenseNet, EfficientNet, MobileNet, Swin, VGG
}
_STAGES = (("layer1", "layer2", "layer3", "layer4"), ("stage2", "stage3", "stage4", "conv5"))  # ResNet; ShuffleNet
_ENDS = {"encoder": "encoder", "norm": "norm"}  # what normalises the last layer: ViT's encoder, Swin's norm
# What torchvision sets itself where it loads published weights; they would be read wrongly without.
_AS_PUBLISHED: dict[str, dict[str, Any]] = {
    "googlenet": {"transform_input": True, "init_weights": False},
    "inception_v3": {"transform_input": True, "init_weights": False},
}


class TorchvisionBackbone(Backbone):
    """A classification model of torchvision; its own pool is what goes into its last linear layer.

    Args:
        name: of the model.
        model: with its weights.
    """

    foldable = True

    def __init__(self, name: str, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self._channels_last = name.startswith("swin")
        children = dict(model.named_children())
        self._modules_of_layers = _layers(model, children)
        self.layers, self.tells_layers = max(len(self._modules_of_layers), 1), bool(self._modules_of_layers)
        self._end = next((end for child, end in _ENDS.items() if child in children), "")
        self.has_class_token = "encoder" in children
        self.prefix = int(self.has_class_token)
        linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
        self.has_pool = bool(linear)
        if linear:
            model.set_submodule(linear[-1], torch.nn.Identity())

    def check(self, layer: int) -> None:
        if not self._modules_of_layers:
            raise ValueError("the layers of this model cannot be told: set pool = 'model'")

    def states(self, pixels: torch.Tensor, wanted: Sequence[int]) -> list[torch.Tensor]:
        modules = {layer: self._modules_of_layers[layer - 1] for layer in wanted if layer}
        if self._end and self.layers in modules:
            modules[self.layers] = self.model.get_submodule(self._end)
        with outputs_of(modules, self._modules_of_layers[0]) as found:
            self.model(pixels)
        return [as_tokens(found[layer], channels_last=self._channels_last) for layer in wanted]

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        if not self.has_pool:
            raise ValueError("it ends with no linear layer, whose input would be its row: set pool = 'mean'")
        return self.model(pixels)


def _layers(model: torch.nn.Module, children: dict[str, torch.nn.Module]) -> list[torch.nn.Module]:
    for names in _STAGES:
        if names[0] in children:
            return [children[name] for name in names]
    place = next((place for child, place in _LAYERS.items() if child in children), None)
    return list(model.get_submodule(place).children()) if place else []


def load(name: str, weights: Path, section: str) -> TorchvisionBackbone:
    """The model, float32, in evaluation mode.

    Raises:
        ExtractionError: torchvision has no such classification model, or the weights are not its own.
    """
    check_name(name, section)
    with torch.random.fork_rng(devices=[]):  # weights are drawn and thrown away; nobody's seed is to change
        model = import_torchvision().models.get_model(name, weights=None, **_AS_PUBLISHED.get(name, {}))
    load_state(model, weights)
    return TorchvisionBackbone(name, model.eval())


def preset(name: str, which: str, section: str) -> Any:
    """The transforms that torchvision publishes with the weights that are called ``which`` (``IMAGENET1K_V1``).

    Raises:
        ExtractionError: there are no such model or weights.
    """
    check_name(name, section)
    published = import_torchvision().models.get_model_weights(name)
    if which not in published.__members__:
        raise ExtractionError(
            f"{section} torchvision publishes no weights {which!r} of {name}; there are "
            f"{', '.join(published.__members__)}"
        )
    return published[which].transforms()


def check_name(name: str, section: str) -> None:
    """Refuse what is no classification model of torchvision.

    Raises:
        ExtractionError: it is none.
    """
    models = import_torchvision().models
    if name not in models.list_models(module=models):
        raise ExtractionError(f"{section} torchvision has no classification model {name!r}")
