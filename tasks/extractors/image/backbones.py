"""Models of pictures of three libraries, each as a :class:`~tasks.extractors.image.network.Backbone`.

timm's come from a folder with ``config.json`` and weights, as timm writes it to the hub; those of transformers (ViT,
DINOv2, CLIP, SigLIP, …) from a folder that it can load; torchvision's are its classification models, with weights as it
publishes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.loading import UNTRAINED_SEED, absent_weights, load_classifier, load_pretrained
from tasks.extractors.embed.settings import Kind
from tasks.extractors.image.network import Backbone, as_tokens, load_state, outputs_of
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
_CLASS_TOKENS = ("cls_token", "class_embedding")
_WHOLE = -1  # among a model's layers: the model below its head
_OTHER_TOKENS = ("distillation_token", "register_tokens")


# --- timm ------------------------------------------------------------------------------------------------------------


def import_timm() -> ModuleType:
    """timm, importable beside any build of torch."""
    import_torchvision()
    import timm

    return timm


class TimmBackbone(Backbone):
    """A model of timm without its classifier; its layers are those of ``feature_info``, a transformer's blocks."""

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

    def states(self, pixels: torch.Tensor, layers: Sequence[int]) -> list[torch.Tensor]:
        inner = sorted({layer for layer in layers if layer < self.layers})
        outputs = {}
        if inner:
            outputs = dict(zip(inner, self._layers(pixels, [layer - 1 for layer in inner], norm=False), strict=True))
        if self.layers in layers:
            (outputs[self.layers],) = self._layers(pixels, [self.layers - 1], norm=True)
        return [outputs[layer] for layer in layers]

    def scored(
        self, pixels: torch.Tensor, layers: Sequence[int], *, pooled: bool
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        if not layers:
            end = self.model.forward_features(pixels)
            return [self.model.forward_head(end, pre_logits=True)] if pooled else [], self.model.forward_head(end)
        # What leaves the last layer is normalised, what leaves the others is not: two passes where both are read.
        inner = [layer for layer in layers if layer < self.layers]
        outputs: dict[int, torch.Tensor] = {}
        end = pixels
        if inner:
            end, states = self._layers_and_end(pixels, [layer - 1 for layer in sorted(inner)], norm=False)
            outputs = dict(zip(sorted(inner), states, strict=True))
        if self.layers in layers:
            end, (outputs[self.layers],) = self._layers_and_end(pixels, [self.layers - 1], norm=True)
        return [outputs[layer] for layer in layers], self.model.forward_head(end)

    def _layers(self, pixels: torch.Tensor, indices: list[int], *, norm: bool) -> list[torch.Tensor]:
        return self._tokens(
            self.model.forward_intermediates(
                pixels, indices=indices, norm=norm, intermediates_only=True, stop_early=True, **self._options
            )
        )

    def _layers_and_end(
        self, pixels: torch.Tensor, indices: list[int], *, norm: bool
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The layers, and before them what goes into the head."""
        end, outputs = self.model.forward_intermediates(pixels, indices=indices, norm=norm, **self._options)
        return end, self._tokens(outputs)

    @staticmethod
    def _tokens(states: Sequence[Any]) -> list[torch.Tensor]:
        return [
            torch.cat([state[1], state[0]], dim=1) if isinstance(state, tuple) else as_tokens(state) for state in states
        ]

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.model(pixels)


def _gives_layers(model: Any) -> bool:
    if not getattr(model, "feature_info", None) or not hasattr(model, "forward_intermediates"):
        return False
    return "indices" in inspect.signature(model.forward_intermediates).parameters


def load_timm(config: Mapping[str, Any], weights: Path, section: str, *, with_head: bool = False) -> TimmBackbone:
    """The model, float32, in evaluation mode.

    Raises:
        ExtractionError: there is no such architecture, or the weights are not this model's.
    """
    with torch.random.fork_rng(devices=[]):  # weights are drawn and thrown away; nobody's seed is to change
        model = _create_timm(config, section)
    load_state(model, weights)
    if not with_head:
        model.reset_classifier(0)
    return TimmBackbone(model.eval())


def data_config(config: Mapping[str, Any], section: str) -> dict[str, Any]:
    """How timm prepares images for the model.

    Raises:
        ExtractionError: there is no such architecture.
    """
    with torch.device("meta"):  # its shapes, without its weights
        model = _create_timm(config, section)
    return import_timm().data.resolve_model_data_config(model)


def _create_timm(config: Mapping[str, Any], section: str) -> Any:
    timm = import_timm()
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


# --- torchvision -----------------------------------------------------------------------------------------------------


class TorchvisionBackbone(Backbone):
    """A classification model of torchvision; its own pool is what goes into its last linear layer."""

    foldable = True

    def __init__(self, name: str, model: torch.nn.Module, *, with_head: bool = False) -> None:
        super().__init__()
        self.model = model
        self._channels_last = name.startswith("swin")
        children = dict(model.named_children())
        self._modules_of_layers = _torchvision_layers(model, children)
        self.layers, self.tells_layers = max(len(self._modules_of_layers), 1), bool(self._modules_of_layers)
        self._end = next((end for child, end in _ENDS.items() if child in children), "")
        self.has_class_token = "encoder" in children
        self.prefix = int(self.has_class_token)
        linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
        self.has_pool = bool(linear)
        if linear:
            head = model.get_submodule(linear[-1])
            model.set_submodule(linear[-1], torch.nn.Identity())
        self.head = head if linear and with_head else torch.nn.Identity()

    def check(self, layer: int) -> None:
        if not self._modules_of_layers:
            raise ValueError("the layers of this model cannot be told: set pool = 'model'")

    def states(self, pixels: torch.Tensor, layers: Sequence[int]) -> list[torch.Tensor]:
        return self._states_and_row(pixels, layers)[0]

    def scored(
        self, pixels: torch.Tensor, layers: Sequence[int], *, pooled: bool
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        if pooled:
            row = self.pooled(pixels)
            return [row], self.head(row)
        states, row = self._states_and_row(pixels, layers) if layers else ([], self.model(pixels))
        return states, self.head(row)

    def _states_and_row(self, pixels: torch.Tensor, layers: Sequence[int]) -> tuple[list[torch.Tensor], torch.Tensor]:
        modules = {layer: self._modules_of_layers[layer - 1] for layer in layers if layer}
        if self._end and self.layers in modules:
            modules[self.layers] = self.model.get_submodule(self._end)
        with outputs_of(modules, self._modules_of_layers[0]) as outputs:
            row = self.model(pixels)
        return [as_tokens(outputs[layer], channels_last=self._channels_last) for layer in layers], row

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        if not self.has_pool:
            raise ValueError("it ends with no linear layer, whose input would be its row: set pool = 'mean'")
        return self.model(pixels)


def _torchvision_layers(model: torch.nn.Module, children: dict[str, torch.nn.Module]) -> list[torch.nn.Module]:
    for names in _STAGES:
        if names[0] in children:
            return [children[name] for name in names]
    parent = next((parent for child, parent in _LAYERS.items() if child in children), None)
    return list(model.get_submodule(parent).children()) if parent else []


def load_torchvision(name: str, weights: Path | None, section: str, *, with_head: bool = False) -> TorchvisionBackbone:
    """The model, float32, in evaluation mode; with random weights, always the same, without a file of them.

    Raises:
        ExtractionError: torchvision has no such classification model, or the weights are not its own.
    """
    check_name(name, section)
    with torch.random.fork_rng(devices=[]):  # weights are drawn, whether kept or not: nobody's seed may change
        torch.manual_seed(UNTRAINED_SEED)
        model = import_torchvision().models.get_model(name, weights=None, **_AS_PUBLISHED.get(name, {}))
    if weights is not None:
        load_state(model, weights)
    return TorchvisionBackbone(name, model.eval(), with_head=with_head)


@cache
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


# --- transformers ----------------------------------------------------------------------------------------------------


class TransformersBackbone(Backbone):
    """A vision model of transformers, or the vision part of one that reads text as well (CLIP, SigLIP).

    Its own pool is what it gives as a picture's features: ``get_image_features`` where it has that, else
    ``pooler_output``.

    Raises:
        ExtractionError: it takes no pictures.
    """

    def __init__(self, model: Any, section: str, classifier: Any = None) -> None:
        super().__init__()
        self.classifier = classifier
        self._of_two = hasattr(model, "get_image_features") and hasattr(model, "vision_model")
        vision = model.vision_model if self._of_two else model
        if getattr(vision, "main_input_name", "") != "pixel_values":
            raise ExtractionError(f"{section} {type(model).__name__} is no model of pictures")
        if self._of_two and hasattr(model, "text_model"):
            model.text_model = None  # frees its memory
        self.model, self._vision = model, [vision]  # in a list: it is registered as a part of the model already
        self._blocks = _blocks(vision, getattr(vision.config, "num_hidden_layers", None))
        self.layers, self.tells_layers = max(len(self._blocks), 1), bool(self._blocks)
        names = dict(vision.named_parameters())
        tokens = {name.rpartition(".")[2]: tensor for name, tensor in names.items()}
        self.has_class_token = any(name in tokens for name in _CLASS_TOKENS)
        others = [tokens[name] for name in _OTHER_TOKENS if name in tokens]
        self.prefix = int(self.has_class_token) + sum(tensor.shape[1] for tensor in others)

    def states(self, pixels: torch.Tensor, layers: Sequence[int]) -> list[torch.Tensor]:
        inner = {layer: self._blocks[layer - 1] for layer in layers if 0 < layer < self.layers}
        with outputs_of(inner, self._blocks[0] if 0 in layers else None) as outputs:
            last = self._vision[0](pixel_values=pixels).last_hidden_state
        return [as_tokens(last if layer == self.layers else outputs[layer]) for layer in layers]

    def scored(
        self, pixels: torch.Tensor, layers: Sequence[int], *, pooled: bool
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        modules = {layer: self._blocks[layer - 1] for layer in layers if 0 < layer < self.layers}
        with outputs_of({**modules, _WHOLE: self._vision[0]}, self._blocks[0] if 0 in layers else None) as outputs:
            numbers = self.classifier(pixel_values=pixels).logits
        body: Any = outputs[_WHOLE]
        if pooled:
            return [self._row(getattr(body, "pooler_output", None))], numbers
        states = [body.last_hidden_state if layer == self.layers else outputs[layer] for layer in layers]
        return [as_tokens(state) for state in states], numbers

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        call = self.model.get_image_features if self._of_two else self.model
        outputs = call(pixel_values=pixels)
        return self._row(outputs if isinstance(outputs, torch.Tensor) else getattr(outputs, "pooler_output", None))

    @staticmethod
    def _row(rows: torch.Tensor | None) -> torch.Tensor:
        if rows is None:
            raise ValueError("the model makes no row of a picture by itself: set pool = 'mean' or 'cls'")
        return rows.flatten(1)


def _blocks(vision: torch.nn.Module, count: int | None) -> list[torch.nn.Module]:
    """The list with as many blocks as the configuration says; empty if there is none, or more than one."""
    lists = [module for module in vision.modules() if isinstance(module, torch.nn.ModuleList) and len(module) == count]
    return list(lists[0]) if len(lists) == 1 else []


def load_transformers(folder: Path, section: str, *, needs_pooler: bool) -> TransformersBackbone:
    """The model, float32, in evaluation mode.

    Args:
        needs_pooler: whether its own pool is used, whose last layer its weights may lack.

    Raises:
        ExtractionError: the folder holds no such model, or not all of its weights.
    """
    loaded = load_pretrained(folder, section)
    backbone, missing = TransformersBackbone(loaded.network, section), absent_weights(loaded)
    if not needs_pooler:
        missing = [name for name in missing if "pooler." not in name]
    if missing:
        pool = "; set pool = 'cls' or 'mean'" if all("pooler." in name for name in missing) else ""
        raise ExtractionError(
            f"{section} the weights lack {len(missing)} of the model's tensors ({missing[0]}, …), which would be drawn "
            f"by chance{pool}"
        )
    return backbone


def load_classifier_backbone(folder: Path, section: str, *, allow_untrained: bool) -> TransformersBackbone:
    """A model with its head, float32, in evaluation mode; its layers are those of the model below the head.

    Raises:
        ExtractionError: the folder holds no such model, or no trained head.
    """
    classifier = load_classifier(Kind.IMAGE, folder, section, allow_untrained=allow_untrained)
    below = classifier.base_model if classifier.base_model is not classifier else classifier.vision_model
    return TransformersBackbone(below, section, classifier)
