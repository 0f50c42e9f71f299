"""A loaded model of sound: windows in, the rows of the chosen layers out. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.audio.shape import AudioShape
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.loading import load_whole
from tasks.extractors.settings import Device, Precision
from tasks.extractors.torch_compute import (
    check_device,
    computing,
    fitting_batch_size,
    forward_in_batches,
    network_on,
    on_device,
    on_processor,
    torch_dtype,
)

_VARIANCE_FLOOR = 1e-7  # as the processors of these models add
_TOGETHER_S = 150.0  # of sound; with more a GPU gains little, and decoding and storing would wait for it


class SoundEncoder:
    """A model of sound.

    Args:
        folder: of the model, as transformers saves it.
        digest: of its files.
        shape: what its configuration promises; the loaded network is held to it.
        layers: which, 0 being what enters the first block.
        mean: take the mean of the layers; otherwise they are concatenated.
        where: begins the sentence of an error.
        device, precision: where and in what it computes.
        batch_size: windows that go through it together; None for one on a processor, and on a GPU for 150 s of sound,
            or what half of its free memory holds.

    Raises:
        ExtractionError: it cannot be loaded, or is not what its configuration says.
    """

    def __init__(
        self,
        folder: Path,
        digest: str,
        shape: AudioShape,
        layers: Sequence[int],
        where: str,
        *,
        mean: bool = False,
        device: Device = Device.CPU,
        precision: Precision = Precision.FLOAT32,
        batch_size: int | None = None,
    ) -> None:
        self._shape, self._layers, self._mean, self._where = shape, tuple(layers), mean, where
        self._device, self._dtype = str(Device(device)), torch_dtype(precision)
        check_device(device, f"{where}:")
        self._tf32 = precision is Precision.TF32
        try:
            self._network, self._processor = network_on(
                self._device,
                (folder, digest, shape, self._dtype),
                lambda: _load(folder, shape, where, self._dtype, self._device),
            )
        except ExtractionError:
            raise
        except Exception as error:  # whatever a library says of files that it does not like
            raise ExtractionError(f"{where} cannot be loaded ({type(error).__name__})") from error
        self._check_front_end()
        self.batch_size = batch_size or (1 if self._device == "cpu" else 0)
        self.ahead = 4 if self._device == "cuda" else 0

    @property
    def columns(self) -> int:
        return self._shape.width * (1 if self._mean else len(self._layers))

    def embed(self, windows: Sequence[np.ndarray], mean: float = 0.0, variance: float = 1.0) -> list[np.ndarray]:
        """The rows of windows of one length.

        Args:
            windows: (n,) float32 samples each.
            mean, variance: of the whole signal, by which a model whose processor normalises has it normalised.

        Returns:
            For each (rows, columns) float32.
        """
        if self._shape.normalises:
            scale = np.sqrt(variance + _VARIANCE_FLOOR)
            windows = [((window - mean) / scale).astype(np.float32) for window in windows]
        if not self.batch_size:
            self.batch_size = self._fitting_batch_size(windows[0])
        return list(on_processor(self._embed(self._input(windows)))())

    def _input(self, windows: Sequence[np.ndarray]) -> torch.Tensor:
        """What the network is given: samples, or their spectrogram."""
        if self._processor is None:
            return torch.from_numpy(np.stack(windows))
        front_end = self._shape.front_end
        if not self._shape.window_rows:  # what no row is made of; the processor would fill it up to another row
            windows = [window[: front_end.samples(front_end.rows(len(window)))] for window in windows]
        return self._processor(
            [np.asarray(window) for window in windows], sampling_rate=self._shape.rate, return_tensors="pt"
        ).input_features

    def _embed(self, given: torch.Tensor) -> torch.Tensor:
        """The rows; a batch size that a GPU's memory does not hold is halved, for good."""
        too_large = (
            f"{self._where}: the GPU has not enough free memory for one window: set a smaller chunk_s, or wait for "
            "what else runs there to end"
        )
        rows, self.batch_size = forward_in_batches(self._forward, given, self.batch_size, too_large)
        return rows

    def _forward(self, given: torch.Tensor) -> torch.Tensor:
        given = on_device(given, self._device)
        inner = any(layer < self._shape.depth for layer in self._layers)
        with computing(self._device, tf32=self._tf32):
            outputs = self._network(given.to(self._dtype), output_hidden_states=inner)
            states = [
                # What leaves the last block is what the model gives out: with its last normalisation, if it has one.
                (outputs.last_hidden_state if layer == self._shape.depth else outputs.hidden_states[layer]).float()
                for layer in self._layers
            ]
            return torch.stack(states).mean(dim=0) if self._mean else torch.cat(states, dim=-1)

    def _fitting_batch_size(self, window: np.ndarray) -> int:
        fitting = fitting_batch_size(lambda: self._forward(self._input([window])), 1)
        return min(fitting, windows_at_once(len(window), self._shape.rate))

    def _check_front_end(self) -> None:
        """Row times follow from the configuration: the network's own convolutions have to be those."""
        network, shape = self._network, self._shape
        if shape.has_spectrogram and not shape.window_rows:
            return  # two frames of a filterbank are a row: the processor's configuration says which
        if shape.window_rows:
            convolutions = [network.conv1, network.conv2]
            spectrum = [(self._processor.n_fft, self._processor.hop_length, self._processor.n_fft // 2)]
        else:
            extractor = getattr(network, "feature_extractor", None)
            convolutions = [layer.conv for layer in getattr(extractor, "conv_layers", ())]
            spectrum = []
        shapes = [(layer.kernel_size[0], layer.stride[0], layer.padding[0]) for layer in convolutions]
        if not shapes or type(shape.front_end).of([*spectrum, *shapes]) != shape.front_end:
            raise ExtractionError(
                f"{self._where} has another front end than its config.json says: its rows' times are unknown"
            )


def windows_at_once(samples: int, rate: int) -> int:
    """How many windows of so many samples a GPU is given together at most."""
    return max(int(_TOGETHER_S * rate / samples), 1)


def _load(folder: Path, shape: AudioShape, where: str, dtype: torch.dtype, device: str) -> tuple[Any, Any]:
    """The network on the device, and what makes its spectrograms, if it wants them."""
    network, processor = load_whole(folder, f"{where}:", dtype, ("decoder.",) if shape.window_rows else ()), None
    if shape.has_spectrogram:
        from transformers import AutoFeatureExtractor

        processor = AutoFeatureExtractor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return (network.get_encoder() if shape.window_rows else network).to(device), processor
