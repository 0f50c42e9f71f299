"""Vision models of transformers (ViT, DINOv2, CLIP, SigLIP, …): from a folder that it can load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.image.backbone import Backbone, as_tokens, outputs_of
from tasks.models.libraries import import_torchvision

_CLASS_TOKENS = ("cls_token", "class_embedding")
_OTHER_TOKENS = ("distillation_token", "register_tokens")


class TransformersBackbone(Backbone):
    """A vision model of transformers, or the vision part of one that reads text as well (CLIP, SigLIP).

    Its own pool is what it gives as a picture's features: ``get_image_features`` where it has that, else
    ``pooler_output``.

    Args:
        model: with its weights.
        section: of the configuration, for messages.

    Raises:
        ExtractionError: it takes no pictures.
    """

    def __init__(self, model: Any, section: str) -> None:
        super().__init__()
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

    def states(self, pixels: torch.Tensor, wanted: Sequence[int]) -> list[torch.Tensor]:
        inner = {layer: self._blocks[layer - 1] for layer in wanted if 0 < layer < self.layers}
        with outputs_of(inner, self._blocks[0] if 0 in wanted else None) as found:
            last = self._vision[0](pixel_values=pixels).last_hidden_state
        return [as_tokens(last if layer == self.layers else found[layer]) for layer in wanted]

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        call = self.model.get_image_features if self._of_two else self.model
        found = call(pixel_values=pixels)
        rows = found if isinstance(found, torch.Tensor) else getattr(found, "pooler_output", None)
        if rows is None:
            raise ValueError("the model makes no row of a picture by itself: set pool = 'mean' or 'cls'")
        return rows.flatten(1)


def _blocks(vision: torch.nn.Module, count: int | None) -> list[torch.nn.Module]:
    """The one list of as many blocks as the configuration says; empty where there is none, or more than one."""
    lists = [module for module in vision.modules() if isinstance(module, torch.nn.ModuleList) and len(module) == count]
    return list(lists[0]) if len(lists) == 1 else []


def load(folder: Path, section: str, *, needs_pooler: bool) -> TransformersBackbone:
    """The model, float32, in evaluation mode.

    Args:
        needs_pooler: whether its own pool is wanted, of which its weights may lack the last layer.

    Raises:
        ExtractionError: the folder holds no such model, or not all of its weights.
    """
    import_torchvision()
    from transformers import AutoModel
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()  # what is missing is looked at here, and is an error
    safe = bool(list(folder.glob("*.safetensors")))
    try:
        model, found = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=safe,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, TypeError, AttributeError, KeyError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ExtractionError(f"{section} transformers cannot load the model: {reason[:300]}") from None
    backbone = TransformersBackbone(model.eval(), section)
    own = {name for name, _ in model.named_parameters()}
    missing = sorted(name for name in found["missing_keys"] if name in own)
    if not needs_pooler:
        missing = [name for name in missing if "pooler." not in name]
    if missing:
        pool = "; set pool = 'cls' or 'mean'" if all("pooler." in name for name in missing) else ""
        raise ExtractionError(
            f"{section} the weights lack {len(missing)} of the model's tensors ({missing[0]}, …), which would be drawn "
            f"by chance{pool}"
        )
    return backbone
