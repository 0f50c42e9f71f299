"""Networks alone, on inputs that lie on their device already: frames a second, for sound seconds of it a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks.extracting.gpu_inputs import RATE
from tasks.extractors.audio.extractor import USUAL_CHUNK_S, AudioSettings
from tasks.models.libraries import import_torchvision

BATCH = {"cuda": 256, "cpu": 4}
VIT = "vit_base_patch16_224"
_DTYPES = {"float16": torch.half, "bfloat16": torch.bfloat16, "tf32": torch.float32, "float32": torch.float32}


def resnet50_alone(device: str, precision: str) -> float:
    return _images_a_second(import_torchvision().models.resnet50(weights=None), device, precision)


def vit_alone(device: str, precision: str) -> float:
    import_torchvision()
    import timm

    return _images_a_second(timm.create_model(VIT, pretrained=False), device, precision)


def _images_a_second(network: torch.nn.Module, device: str, precision: str) -> float:
    dtype, batch = _DTYPES[precision], BATCH[device]
    network = network.eval().to(device, dtype)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types do not have it
    images = torch.randn(batch, 3, 224, 224, device=device, dtype=dtype).to(memory_format=torch.channels_last)
    return _rate(partial(network, images), batch, precision)


def wav2vec2_alone(folder: Path, device: str, precision: str) -> float:
    import_torchvision()
    from transformers import Wav2Vec2Model

    dtype, batch, kept_s = _DTYPES[precision], max(BATCH[device] // 32, 1), round(USUAL_CHUNK_S)
    window_s = kept_s + round(2 * AudioSettings.model_fields["context_s"].default)
    network = Wav2Vec2Model.from_pretrained(folder).eval().to(device, dtype)
    samples = torch.randn(batch, window_s * RATE, device=device, dtype=dtype)
    return _rate(partial(network, samples), batch * kept_s, precision)


def dope_alone(checkpoint: Path, device: str, precision: str) -> float:
    from tasks.extractors.dope.checkpoint import load_checkpoint
    from tasks.extractors.dope.detector import DopeDetector
    from tasks.extractors.dope.network import frame_size, network_input
    from tasks.extractors.dope.settings import DopeSettings

    detector = DopeDetector(load_checkpoint(checkpoint), DopeSettings(device=device, precision=precision))
    frames = torch.randint(0, 256, (detector.settings.frames_at_once, 720, 1280, 3), dtype=torch.uint8).numpy()
    images = network_input(list(frames), detector.options, detector.device)
    sizes = [frame_size(frame) for frame in frames]
    return _rate(lambda: detector.network(images, sizes), len(frames), precision, repeats=2)


def _rate(once: Callable[[], object], frames: int, precision: str, repeats: int = 10) -> float:
    """Frames a second of ``once``, which takes so many; on a GPU it is also printed without cuDNN's trials.

    cuDNN tries its algorithms and takes the fastest, which the product does not let it do.
    """
    if torch.cuda.is_available():
        untried = _timed(once, frames, precision, repeats, tries=False)
        print(f"the next network, as cuDNN chooses its algorithms without trials: {untried:,.0f}", flush=True)
    return _timed(once, frames, precision, repeats, tries=True)


def _timed(once: Callable[[], object], frames: int, precision: str, repeats: int, *, tries: bool) -> float:
    cuda = torch.cuda.is_available()
    wait: Callable[[], object] = torch.cuda.synchronize if cuda else int
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    numerics = torch.backends.cudnn.flags(enabled=True, benchmark=tries, allow_tf32=precision == "tf32")
    with torch.inference_mode(), numerics:
        once()  # cuDNN chooses its algorithms
        wait()
        started = time.perf_counter()
        for _ in range(repeats if cuda else 1):
            once()
        wait()
    return frames * (repeats if cuda else 1) / (time.perf_counter() - started)
