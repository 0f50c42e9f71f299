"""A loaded model of videos: frames in as they are decoded, a row for each clip of them out. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import EmbedSettings
from tasks.extractors.image.backbones import UNTRAINED_SEED, load_pretrained
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

_Prepare = Callable[[np.ndarray], torch.Tensor]


class ClipEncoder:
    """A model of videos.

    Args:
        shape: what its configuration promises; the loaded model is held to it.
        layers: which, 0 being what enters the first block. They are concatenated.

    Attributes:
        batch_size: clips that should be given to it together.

    Raises:
        ExtractionError: it cannot be loaded, is not what its configuration says, or there is no such device here.
    """

    def __init__(self, model: LocalModel, shape: ClipShape, layers: Sequence[int], settings: EmbedSettings) -> None:
        self._shape, self._layers, self._where = shape, tuple(layers), settings.label
        self.device = str(settings.device)
        check_device(settings.device, f"{settings.section}:")
        self._tf32 = settings.precision is Precision.TF32
        self._dtype = torch_dtype(settings.precision)
        self._family = family_of(model, self._where) if model.folder else None

        def made() -> tuple[Any, _Prepare]:
            if model.folder is None or self._family is None:
                network, prepare = _of_torchvision(model)
            else:
                network = _of_transformers(model.folder, self._family, self._where)
                prepare = _processor(model.folder, self._family, self._where)
            return network.eval().to(self._dtype).to(self.device), prepare

        key = (model.origin, model.name, model.revision, model.folder, model.digest, self._dtype)
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
        if rows.shape[1] != (width := self._shape.width * len(self._layers)):
            raise ExtractionError(f"{self._where} gives rows of {rows.shape[1]}, but its configuration says {width}")
        return on_processor(rows)()

    def _forward(self, clips: torch.Tensor) -> torch.Tensor:
        clips = on_device(clips, self.device).to(self._dtype)
        with computing(self.device, tf32=self._tf32):
            if self._family is None:
                return self._network(clips.transpose(1, 2)).float()
            if not self._family.blocks:
                return self._network.get_video_features(clips).pooler_output.float()
            blocks, depth = self._network.get_submodule(self._family.blocks), self._shape.depth
            inner = {layer: blocks[layer - 1] for layer in self._layers if 0 < layer < (depth or 0)}
            with outputs_of(inner, blocks[0] if 0 in self._layers else None) as outputs:
                last = self._network(clips, **self._family.options).last_hidden_state
            states = [last if layer == depth else as_tokens(outputs[layer]) for layer in self._layers]
            return torch.cat([tokens.float().mean(dim=1) for tokens in states], dim=-1)


def _of_torchvision(model: LocalModel) -> tuple[Any, _Prepare]:
    """The network without its classifier, with random weights where there is no file of them; and its transforms."""
    models = import_torchvision().models
    with torch.random.fork_rng(devices=[]):  # weights are drawn, whether kept or not: nobody's seed may change
        torch.manual_seed(UNTRAINED_SEED)
        network = models.get_model(model.name, weights=None)
    for weights in model.weights:
        load_state(network, weights)
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
    network, missing = load_pretrained(folder, f"{where}:")
    for name in family.unused:
        if hasattr(network, name):
            delattr(network, name)
    own = {name for name, _ in network.named_parameters()}
    if absent := sorted(name for name in missing if name in own):
        raise ExtractionError(
            f"{where}: its files lack {len(absent)} of the model's tensors ({absent[0]}, …), which would be drawn by "
            "chance"
        )
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
