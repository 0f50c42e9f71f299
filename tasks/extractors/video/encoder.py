"""A loaded model of videos: frames in as they are decoded, a row for each clip of them out. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.loading import (
    UNTRAINED_SEED,
    activated,
    load_classifier,
    load_whole,
)
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.scores import Head
from tasks.extractors.embed.settings import EmbedSettings, Kind
from tasks.extractors.image.network import as_tokens, load_state, outputs_of
from tasks.extractors.settings import Precision
from tasks.extractors.torch_compute import (
    check_device,
    computing,
    fitting_batch_size,
    forward_in_batches,
    network_on,
    on_device,
    on_processor,
    one_thread,
    torch_dtype,
)
from tasks.extractors.video.shape import ClipShape, Family, family_of
from tasks.models.libraries import import_torchvision

_WHOLE = -1  # among a model's layers: the model below its head
_Prepare = Callable[[np.ndarray], torch.Tensor]


class ClipEncoder:
    """A model of videos.

    Args:
        shape: what its configuration promises; the loaded model is held to it.
        layers: which, 0 being what enters the first block. They are concatenated.
        head: whose scores follow them.

    Attributes:
        batch_size: clips that should be given to it together.

    Raises:
        ExtractionError: it cannot be loaded, is not what its configuration says, or there is no such device here.
    """

    def __init__(
        self,
        model: LocalModel,
        shape: ClipShape,
        layers: Sequence[int],
        settings: EmbedSettings,
        head: Head | None = None,
    ) -> None:
        self._shape, self._where, self._head = shape, settings.label, head
        self._layers = tuple(layers) if settings.gives_hidden else ()
        self.device = str(settings.device)
        check_device(settings.device, f"{settings.section}:")
        self._tf32 = settings.precision is Precision.TF32
        self._dtype = torch_dtype(settings.precision)
        self._family = family_of(model, self._where) if model.folder else None

        def made() -> tuple[Any, _Prepare]:
            if model.folder is None or self._family is None:
                network, prepare = _of_torchvision(model, with_head=head is not None)
            elif head is not None:
                network = load_classifier(
                    Kind.VIDEO, model.folder, f"{self._where}:", allow_untrained=settings.allow_untrained
                )
                prepare = _processor(model.folder, self._family, self._where)
            else:
                network = _of_transformers(model.folder, self._family, self._where)
                prepare = _processor(model.folder, self._family, self._where)
            return network.eval().to(self._dtype).to(self.device), prepare

        key = (model.origin, model.name, model.revision, model.folder, model.digest, self._dtype, head is not None)
        self._network, self._prepare = network_on(self.device, key, made)
        self.batch_size = settings.batch_size or (1 if self.device == "cpu" else 0)

    def prepare(self, rgb: np.ndarray) -> torch.Tensor:
        """Frames as the model's own processor makes them: of (n, height, width, 3) uint8 RGB (n, 3, …) float32."""
        with one_thread():
            return self._prepare(rgb)

    def embed(self, clips: Sequence[Sequence[torch.Tensor]]) -> np.ndarray:
        """The rows of clips of prepared frames: (n, width) float32.

        Raises:
            ExtractionError: the model does not take them, or gives other rows than its configuration says.
        """
        given = torch.stack([torch.stack(list(frames)) for frames in clips])
        too_large = f"{self._where}: the GPU has not enough free memory for one clip: wait for what else runs there"
        try:
            if not self.batch_size:
                self.batch_size = fitting_batch_size(lambda: self._forward(given[:1]), 1)
            rows, self.batch_size = forward_in_batches(self._forward, given, self.batch_size, too_large)
        except (RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ExtractionError(
                f"{self._where} cannot read clips of {tuple(given.shape[1:])} (frames, channels, height, width): "
                f"{reason[:300]}"
            ) from None
        width = self._shape.width * len(self._layers) + (len(self._head.labels) if self._head else 0)
        if rows.shape[1] != width:
            raise ExtractionError(f"{self._where} gives rows of {rows.shape[1]}, but its configuration says {width}")
        return on_processor(rows)()

    def _forward(self, clips: torch.Tensor) -> torch.Tensor:
        clips = on_device(clips, self.device).to(self._dtype)
        with computing(self.device, tf32=self._tf32):
            if self._family is None:
                return self._of_torchvision(clips)
            if not self._family.blocks and self._head is None:
                return self._network.get_video_features(clips).pooler_output.float()
            below = self._network if self._head is None else self._network.base_model
            blocks, depth = below.get_submodule(self._family.blocks), self._shape.depth
            inner = {layer: blocks[layer - 1] for layer in self._layers if 0 < layer < (depth or 0)}
            with outputs_of({**inner, _WHOLE: below}, blocks[0] if 0 in self._layers else None) as outputs:
                made = self._network(clips, **(self._family.options if self._head is None else {}))
            last: Any = outputs[_WHOLE]
            states = [last.last_hidden_state if layer == depth else as_tokens(outputs[layer]) for layer in self._layers]
            scores = [activated(made.logits, self._head.activation)] if self._head else []
            return torch.cat([*(tokens.float().mean(dim=1) for tokens in states), *scores], dim=-1)

    def _of_torchvision(self, clips: torch.Tensor) -> torch.Tensor:
        network = self._network
        if self._head is None:
            return network(clips.transpose(1, 2)).float()
        given: list[torch.Tensor] = []
        hook = network.fc.register_forward_pre_hook(lambda _module, rows: given.append(rows[0].float()))
        try:
            scores = activated(network(clips.transpose(1, 2)), self._head.activation)
        finally:
            hook.remove()
        return torch.cat([*given, scores], dim=-1) if self._layers else scores


def _of_torchvision(model: LocalModel, *, with_head: bool) -> tuple[Any, _Prepare]:
    """The network, whose weights are random where there is no file of them; and its transforms."""
    models = import_torchvision().models
    with torch.random.fork_rng(devices=[]):  # weights are drawn, whether kept or not: nobody's seed may change
        torch.manual_seed(UNTRAINED_SEED)
        network = models.get_model(model.name, weights=None)
    for weights in model.weights:
        load_state(network, weights)
    if not with_head:
        network.fc = torch.nn.Identity()
    transforms = models.get_model_weights(model.name)[model.revision].transforms()

    def prepare(rgb: np.ndarray) -> torch.Tensor:
        return transforms(torch.from_numpy(rgb).permute(0, 3, 1, 2).contiguous()).transpose(0, 1)

    return network, prepare


def _of_transformers(folder: Path, family: Family, where: str) -> Any:
    """The network, without the parts that no row depends on.

    Raises:
        ExtractionError: it cannot be loaded, or weights of it are in no file.
    """
    network = load_whole(folder, f"{where}:", unused=family.unused)
    for name in family.unused:
        if hasattr(network, name):
            delattr(network, name)
    return network


def _processor(folder: Path, family: Family, where: str) -> _Prepare:
    """What prepares frames: the processor of the model's folder.

    Raises:
        ExtractionError: there is none, or what it makes of a frame depends on the other frames.
    """
    from transformers import AutoImageProcessor, AutoVideoProcessor

    kind = AutoImageProcessor if family.by_images else AutoVideoProcessor
    try:
        processor = kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ExtractionError(f"{where}: transformers cannot load its processor: {reason[:300]}") from None

    def prepare(rgb: np.ndarray) -> torch.Tensor:
        if family.by_images:
            made = processor(list(rgb), return_tensors="pt")
        else:
            made = processor(videos=[rgb], do_sample_frames=False, return_tensors="pt")
        (pixels,) = (made[name] for name in made if name.startswith("pixel_values"))
        return pixels.reshape(-1, *pixels.shape[-3:])

    noise = np.random.default_rng(0).integers(0, 256, (2, 48, 64, 3), dtype=np.uint8)
    together, alone = prepare(noise), torch.cat([prepare(noise[:1]), prepare(noise[1:])])
    if together.shape != alone.shape or len(together) != len(noise) or not torch.equal(together, alone):
        raise ExtractionError(
            f"{where}: what its processor ({type(processor).__name__}) makes of a frame depends on the frames beside it"
        )
    return prepare
