"""A loaded model of sound that gives one row of a window: its layers' means or its own row, and its head's scores.

Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.audio.encoder import windows_at_once
from tasks.extractors.audio.shape import OF_WINDOWS, WindowShape
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.extractor import layer_numbers
from tasks.extractors.embed.loading import activated, load_classifier, load_whole
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.scores import Head
from tasks.extractors.embed.settings import Kind
from tasks.extractors.settings import Precision
from tasks.extractors.torch_compute import (
    check_device,
    computing,
    forward_in_batches,
    network_on,
    on_device,
    on_processor,
    torch_dtype,
)
from tasks.models.libraries import loading


class WindowEncoder:
    """A model of sound.

    Args:
        shape: what its configuration promises.
        head: whose scores follow the layers.

    Raises:
        ExtractionError: it cannot be loaded, has no trained head, or there is no such device here.
    """

    def __init__(self, model: LocalModel, shape: WindowShape, settings: Any, head: Head | None) -> None:
        self._shape, self._settings, self._head, self._where = shape, settings, head, f"{settings.label}:"
        self._device, self._dtype = str(settings.device), torch_dtype(settings.precision)
        check_device(settings.device, f"{settings.section}:")
        self._layers = layer_numbers(settings, shape.depth) if settings.gives_hidden and shape.depth is not None else ()
        self._own_row = settings.gives_hidden and shape.depth is None
        folder = model.folder or Path()

        def made() -> tuple[Any, Any]:
            if head is None:
                network = _load(folder, model, self._where)
            else:
                untrained = settings.allow_untrained
                network = load_classifier(Kind.AUDIO, folder, self._where, allow_untrained=untrained)
            from transformers import AutoFeatureExtractor  # which loading the network has prepared

            processor = AutoFeatureExtractor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            return network.to(self._dtype).to(self._device), processor

        key = (folder, model.digest, self._dtype, head is None)
        with loading():
            self._network, self._processor = network_on(self._device, key, made)
        self._batch_size = settings.batch_size

    def windows_at_once(self, window_s: float) -> int:
        """How many windows should be given to it together."""
        if self._batch_size is None:
            self._batch_size = 1 if self._device == "cpu" else windows_at_once(round(window_s * 1000), 1000)
        return self._batch_size

    def embed(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """The rows of windows, (n,) float32 samples each, all of one length: (windows, columns) float32.

        Raises:
            ExtractionError: the model does not take them, or gives other rows than its configuration says.
        """
        front_end = self._shape.front_end if self._layers else None
        steps = None if front_end is None else front_end.rows(len(windows[0]))
        too_large = f"{self._where} the GPU has not enough free memory for one window: set a smaller window_s"
        try:
            if steps == 0:
                raise ValueError("it is shorter than what one step of the model is made of")
            # Each by itself: what a processor makes of a window may depend on those beside it (CLAP's).
            made = [self._processor(window, sampling_rate=self._shape.rate, return_tensors="pt") for window in windows]
            given = {name: torch.cat([one[name] for one in made]) for name in made[0]}
            rows, self._batch_size = forward_in_batches(
                lambda chosen: self._forward({name: tensor[chosen] for name, tensor in given.items()}, steps),
                torch.arange(len(windows)),
                self._batch_size or 1,
                too_large,
            )
        except (RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            seconds = len(windows[0]) / self._shape.rate
            raise ExtractionError(f"{self._where} cannot read a window of {seconds:.3f} s: {reason[:300]}") from None
        return on_processor(rows)()

    def _forward(self, given: Mapping[str, torch.Tensor], steps: int | None) -> torch.Tensor:
        placed = {name: on_device(tensor, self._device) for name, tensor in given.items()}
        placed = {name: each.to(self._dtype) if each.is_floating_point() else each for name, each in placed.items()}
        with computing(self._device, tf32=self._settings.precision is Precision.TF32):
            if self._head is None and hasattr(self._network, "get_audio_features"):
                return self._network.get_audio_features(**placed).pooler_output.float()
            below: dict[str, Any] = {}
            base = self._network.base_model
            if self._head is not None and base is self._network:  # Whisper's classifier has its encoder, and no base
                base = getattr(base, "encoder", base)
            hook = base.register_forward_hook(lambda _module, _given, outputs: below.update(outputs=outputs))
            try:
                made = self._network(**placed, output_hidden_states=bool(self._layers))
            finally:
                hook.remove()
            outputs = below["outputs"]
            parts = [outputs.pooler_output.float()] if self._own_row else []
            parts += self._means(outputs, steps) if self._layers else []
            parts += [activated(made.logits, self._head.activation)] if self._head else []
            return torch.cat(parts, dim=-1)

    def _means(self, outputs: Any, steps: int | None) -> list[torch.Tensor]:
        """The mean of each layer's rows over the window; of several layers one mean if the section says so.

        Args:
            steps: how many rows are of the window's sound; those behind them are of what the processor filled it up
                with.
        """
        states = [
            (outputs.last_hidden_state if layer == self._shape.depth else outputs.hidden_states[layer]).float()
            for layer in self._layers
        ]
        means = [state[:, :steps].mean(dim=1) for state in states]
        return [torch.stack(means).mean(dim=0)] if self._settings.pool == "mean" else means


def _load(folder: Path, model: LocalModel, where: str) -> Any:
    """The network without a head.

    Raises:
        ExtractionError: it cannot be loaded, or weights are in no file.
    """
    network = load_whole(folder, where, unused=("decoder.",))
    if hasattr(network, "text_model"):
        network.text_model = network.text_projection = None  # frees their memory
    is_in_two = model.config.get("model_type") not in OF_WINDOWS and network.config.is_encoder_decoder
    return network.get_encoder() if is_in_two else network
