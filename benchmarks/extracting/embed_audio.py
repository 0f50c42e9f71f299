"""A model of sound as a feature, beside the bare network; and memory from 1 to 30 minutes.

    python -m benchmarks.extracting.embed_audio [--runs 3] [--seconds 60] [--layers 12] [--minutes 1 30]

A wav2vec 2.0 of the base model's size with random weights, one thread, float32. *Bare* is the network alone, on the
samples of the very windows that extraction cuts; *without context* is the network on pieces of 30 s that do not
overlap. *Ours* is an extraction from a WAV file to the published feature. Memory is that of a process that extracts
with a small network, whose cost is small beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import wave
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import interleave, peak_memory_gb, print_machine
from benchmarks.performance_page import record
from storyframes.store.layout import create_store
from tasks.extract import extract
from tasks.extractors.audio.extractor import USUAL_CHUNK_S, AudioSettings
from tasks.extractors.audio.shape import audio_shape
from tasks.extractors.audio.windows import Windows, window_rows
from tasks.extractors.embed.settings import Kind
from tasks.extractors.registry import ExtractorsSettings
from tasks.models.libraries import import_torchvision
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

RATE = 16_000
CONTEXT_S: float = AudioSettings.model_fields["context_s"].default
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "conv_dim": [16] * 7,
    "num_conv_pos_embedding_groups": 4,
}


def model_folder(root: Path, name: str, **sizes: Any) -> Path:
    folder = root / name
    if not folder.exists():
        import_torchvision()
        from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2Model

        torch.manual_seed(0)
        config = Wav2Vec2Config(feat_extract_norm="layer", do_stable_layer_norm=True, **sizes)
        Wav2Vec2Model(config).save_pretrained(folder)
        Wav2Vec2FeatureExtractor().save_pretrained(folder)
    return folder


def study(folder: Path, seconds: float) -> Path:
    """A session with noise of so many seconds, written a second at a time."""
    folder.mkdir(exist_ok=True)
    (folder / "sessions.csv").write_text("session_id,participant_id,video\ns,p,none.avi\n")
    (folder / "tracks.csv").write_text("session_id,track,audio\ns,lapel,s.wav\n")
    noise = np.random.default_rng(0)
    with wave.open(str(folder / "s.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        for _ in range(round(seconds)):
            file.writeframes(noise.normal(0, 3000, RATE).astype("<i2").tobytes())
    return folder


def extracted(folder: Path, model: Path, store: Path) -> None:
    create_store(store)
    settings = ExtractorsSettings(embed=(AudioSettings(name="m", kind=Kind.AUDIO, source=f"path:{model}"),))
    for work in plan_extraction(load_study(folder), store, settings, Selection(only=("m",))).units:
        for outcome in extract(work):
            if outcome.reason:
                raise SystemExit(f"{outcome.feature}: {outcome.reason}")


def bare(network: torch.nn.Module, windows: list[np.ndarray]) -> None:
    with torch.inference_mode():
        for window in windows:
            network(torch.from_numpy(window)[None])


def print_beside_bare(root: Path, seconds: float, layers: int, runs: int) -> None:
    folder, model = study(root / "study", seconds), model_folder(root, "base", num_hidden_layers=layers)
    from transformers import Wav2Vec2Model

    network = Wav2Vec2Model.from_pretrained(model).eval()
    samples = np.random.default_rng(0).normal(0, 1, round(seconds) * RATE).astype(np.float32)
    shape = audio_shape(model, json.loads((model / "config.json").read_text()), "the model")
    windows = Windows(shape.front_end, *window_rows(shape, USUAL_CHUNK_S, CONTEXT_S))
    cut = [window.samples for window in windows.cut([samples])]
    pieces = np.array_split(samples, max(round(seconds / USUAL_CHUNK_S), 1))
    fresh = count()
    jobs: dict[str, Callable[[], object]] = {
        "bare": partial(bare, network, cut),
        "bare, without context": partial(bare, network, pieces),
        "ours": lambda: extracted(folder, model, root / f"store{next(fresh)}"),
    }
    measured = interleave(jobs, runs)
    columns = (f"of {seconds:g} s of sound, {layers} layers", "CPU-s", "bare / it (wanted: 0.90)")
    bare_s = measured["bare"].cpu_s
    rows = [[name, f"{one.cpu_s:.2f}", f"{bare_s / one.cpu_s:.2f}"] for name, one in measured.items()]
    record("models-of-sound", columns, rows, ["torch", "transformers"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--minutes", type=float, nargs="*", default=[1, 30])
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    if arguments.memory_of:
        where = json.loads(arguments.memory_of)
        root, minutes = Path(where["root"]), where["minutes"]
        with tempfile.TemporaryDirectory() as store:
            extracted(study(root / f"minutes{minutes:g}", 60 * minutes), root / "small", Path(store) / "f")
        status = Path("/proc/self/status").read_text()
        print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
        return
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if arguments.runs:
            print_beside_bare(root, arguments.seconds, arguments.layers, arguments.runs)
        model_folder(root, "small", **SMALL)
        print("\npeak memory of a process that extracts with a small network")
        for minutes in arguments.minutes:
            asked = json.dumps({"root": folder, "minutes": minutes})
            print(f"  {minutes:5g} minutes  {peak_memory_gb('benchmarks.extracting.embed_audio', asked):6.2f} GB")


if __name__ == "__main__":
    main()
