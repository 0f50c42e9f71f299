"""Models with random weights and long recordings, for ``benchmarks.extracting.gpu``."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import av
import numpy as np
import torch

from tasks.extractors.image.encoder import Encoder, Library, PreparedEncoder
from tasks.extractors.settings import Precision
from tasks.models.libraries import import_torchvision

RATE = 16_000  # of sound


def timm_folder(root: Path, name: str) -> Path:
    """A model of timm with random weights, in the layout of the hub."""
    folder = root / name
    if not folder.exists():
        import_torchvision()
        import timm
        from timm.models import save_for_hf

        torch.manual_seed(0)
        save_for_hf(timm.create_model(name, pretrained=False), folder, safe_serialization=True, model_args={})
    return folder


def prepared(root: Path, name: str, precision: Precision) -> PreparedEncoder:
    """The encoder of a model of :func:`timm_folder`."""
    folder = timm_folder(root, name)
    config = json.loads((folder / "config.json").read_text())
    return Encoder(name, Library.TIMM, name, folder / "model.safetensors", folder, config=config).prepared(precision)


def wav2vec2_folder(root: Path) -> Path:
    """A wav2vec 2.0 of the base model's size."""
    folder = root / "base"
    if not folder.exists():
        import_torchvision()
        from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2Model

        torch.manual_seed(0)
        config = Wav2Vec2Config(feat_extract_norm="layer", do_stable_layer_norm=True)
        Wav2Vec2Model(config).save_pretrained(folder)
        Wav2Vec2FeatureExtractor().save_pretrained(folder)
    return folder


def write_noise(path: Path, seconds: int) -> None:
    """A WAV file of noise, written a second at a time."""
    noise = np.random.default_rng(0)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        for _ in range(seconds):
            file.writeframes(noise.normal(0, 3000, RATE).astype("<i2").tobytes())


def repeat(video: Path, times: int, piece_s: float) -> None:
    """Make a recording of ``piece_s`` seconds so many times as long, without encoding it again."""
    piece = video.rename(video.with_name("piece.avi"))
    with av.open(str(video), "w") as longer:
        for number in range(times):
            with av.open(str(piece)) as source:
                if number == 0:
                    streams = [longer.add_stream_from_template(stream) for stream in source.streams]
                for packet in source.demux():
                    if packet.dts is None:
                        continue
                    shift = round(number * piece_s / packet.time_base)
                    packet.stream = streams[packet.stream.index]
                    packet.pts, packet.dts = packet.dts + shift, packet.dts + shift
                    longer.mux(packet)
    piece.unlink()
