"""A loaded model of sound that gives one row of a window: its layers' means or its own row, and its head's scores.

Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from tasks.extractors.audio.encoder import windows_at_once
from tasks.extractors.audio.shape import OF_WINDOWS, WindowShape
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.extractor import layer_numbers
from tasks.extractors.embed.loading import (
    absent_weights,
    activated,
    load_pretrained,
    refuse_untrained,
)
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.scores import CLASSIFIERS, Head
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

_DENSE = "classifier.dense"
_OUTPUTS = ("classifier.out_proj", "classifier.output")
_OF_HEAD = ("classifier.", "projector.")


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
            from transformers import AutoFeatureExtractor

            if head is None:
                network = _load(folder, model, self._where)
            else:
                network, _ = load_sound_classifier(folder, settings.label, allow_untrained=settings.allow_untrained)
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
    loaded = load_pretrained(folder, where)
    network = loaded.network
    if hasattr(network, "text_model"):
        network.text_model = network.text_projection = None  # frees their memory
    if missing := [name for name in absent_weights(loaded) if not name.startswith("decoder.")]:
        raise ExtractionError(f"{where} has no weights for {missing[0]} ({len(missing)} in all): they would be random")
    is_in_two = model.config.get("model_type") not in OF_WINDOWS and network.config.is_encoder_decoder
    return network.get_encoder() if is_in_two else network


def load_sound_classifier(folder: Path, where: str, *, allow_untrained: bool) -> tuple[Any, bool]:
    """A model with its head, and whether weights of it are random.

    A head that transformers does not have is recognised by the keys of its weights: the mean over time, a dense layer,
    tanh, and an output layer, as models of the field's speech emotions have it.

    Raises:
        ExtractionError: it has no head that is known, or none that was trained.
    """
    loaded = load_pretrained(folder, f"{where}:", CLASSIFIERS[Kind.AUDIO])
    missing = absent_weights(loaded)
    if not missing:
        return loaded.network, False
    output = next((name for name in _OUTPUTS if f"{name}.weight" in loaded.unexpected), None)
    of_head = {f"{name}.{part}" for name in (_DENSE, output) for part in ("weight", "bias")}
    config = loaded.network.config
    if set(loaded.unexpected) == of_head and all(name.startswith(_OF_HEAD) for name in missing):
        if getattr(config, "pooling_mode", "mean") != "mean":
            raise ExtractionError(
                f"{where}: pooling_mode = {config.pooling_mode!r} in config.json: supported is 'mean'"
            )
        return DenseHead(loaded.network.base_model, _tensors(folder, of_head, where), output or "").eval(), False
    refuse_untrained(missing, loaded.unexpected, where, allow_untrained=allow_untrained)
    return loaded.network, True


@lru_cache(maxsize=8)
def sound_lacks_weights(folder: Path, digest: str, where: str) -> bool:
    """Whether weights of a model with its head are in no file, the files being those of the digest."""
    return load_sound_classifier(folder, where, allow_untrained=True)[1]


class DenseHead(torch.nn.Module):
    """A model of sound with a head: the mean over time, a dense layer, tanh, and an output layer.

    Args:
        base_model: without a head.
        tensors: the head's weights, by their keys in the files.
        output: the key of the output layer.
    """

    def __init__(self, base_model: Any, tensors: Mapping[str, torch.Tensor], output: str) -> None:
        super().__init__()
        self.base_model = base_model
        self.dense, self.output = (_linear(tensors, name) for name in (_DENSE, output))

    def forward(self, output_hidden_states: bool = False, **given: torch.Tensor) -> Any:
        from transformers.modeling_outputs import SequenceClassifierOutput

        outputs = self.base_model(**given, output_hidden_states=output_hidden_states)
        row = self.dense(outputs.last_hidden_state.mean(dim=1))
        return SequenceClassifierOutput(logits=self.output(torch.tanh(row)))


def _linear(tensors: Mapping[str, torch.Tensor], name: str) -> torch.nn.Linear:
    weight, bias = tensors[f"{name}.weight"].float(), tensors[f"{name}.bias"].float()
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def _tensors(folder: Path, names: set[str], where: str) -> dict[str, torch.Tensor]:
    """Some of a model's weights, from all its files."""
    found: dict[str, torch.Tensor] = {}
    safe = sorted(folder.glob("model*.safetensors"))
    for path in safe:
        with safe_open(path, "pt") as file:
            found |= {name: file.get_tensor(name) for name in names & set(file.keys())}
    for path in [] if safe else sorted(folder.glob("pytorch_model*.bin")):
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        found |= {name: state[name] for name in names & set(state)}
    if lacking := sorted(names - set(found)):
        raise ExtractionError(f"{where}: no file has {lacking[0]}")
    return found
