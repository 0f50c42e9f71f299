"""Models of pictures as features: beside the bare network, and three of them in one pass beside three passes.

    python -m benchmarks.extracting.embed_image [--runs 3] [--seconds 20] [--minutes 1 30]

Networks of random weights, one thread, float32, the same engine for both. *Bare* is the network alone on images that
are prepared already; *ours* is all that extraction does after decoding: preprocessing, the network, the store's rows.
Memory is read while sessions of 1 and of 30 minutes are extracted, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.extracting.long_session import repeat
from benchmarks.extracting.resnet50 import frames_720p
from benchmarks.measure import Measured, cpu_seconds, interleave, peak_memory_gb, print_machine
from benchmarks.performance_page import record
from storyframes.store.shards import ShardWriter
from tasks.extract import extract
from tasks.extractors.frame_pass import BATCH_FRAMES
from tasks.extractors.image.encoder import Encoder, Library, PreparedEncoder
from tasks.extractors.image.engines import Engine, open_engine
from tasks.extractors.image.writer import EmbeddingWriter
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.settings import NetworkSettings, Precision
from tasks.media.recording import FrameBatch, RecordingReader
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.libraries import import_torchvision
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study

FRAMES = 16  # of each turn
MODELS = ("resnet50", "vit_small_patch14_dinov2", "convnext_tiny")
_PIECE_S = 10  # of a recording that is made longer
_SMALL = "test_resnet"  # where decoding is to be a part of the cost that can be seen


def timm_folder(root: Path, name: str, **arguments: Any) -> Path:
    """A model of timm with random weights, as it lies on the hub."""
    folder = root / name
    if not folder.exists():
        import_torchvision()
        import timm
        from timm.models import save_for_hf

        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False, **arguments)
        save_for_hf(model, folder, safe_serialization=True, model_args=arguments)
    return folder


def prepared(root: Path, name: str, precision: Precision = Precision.FLOAT32) -> PreparedEncoder:
    arguments = {"img_size": 224} if "dinov2" in name else {}  # as most use it; 518 was for its training
    folder = timm_folder(root, name, **arguments)
    config = json.loads((folder / "config.json").read_text())
    encoder = Encoder(name, Library.TIMM, name, folder / "model.safetensors", folder, config=config)
    return encoder.prepared(precision)


def bare(engine: Engine, images: np.ndarray) -> None:
    for first in range(0, len(images), engine.batch_size):
        engine.start(images[first : first + engine.batch_size])()


def print_beside_bare(root: Path, runs: int) -> None:
    frames = frames_720p(FRAMES)
    jobs: dict[str, Callable[[], object]] = {}
    for name in MODELS:
        model = prepared(root, name)
        engine = open_engine(model, NetworkSettings(engine="openvino"))
        images = model.preprocessing.images(frames)
        jobs[f"{name}: bare"] = partial(bare, engine, images)
        row = engine.start(images[:1])().shape[1:]
        jobs[f"{name}: ours"] = partial(through_the_writer, model, engine, frames, row, root)
    measured = interleave(jobs, runs)
    rows = []
    for name in MODELS:
        without, with_ = (measured[f"{name}: {which}"].cpu_s / FRAMES for which in ("bare", "ours"))
        rows.append([f"timm's {name}", f"{1000 * without:.1f}", f"{1000 * with_:.1f}", f"{without / with_:.2f}"])
    columns = ("model", "bare, CPU-ms", "ours", "bare / ours (wanted: 0.90)")
    record("models-of-pictures", columns, rows, ["torch", "openvino", "timm"])


def through_the_writer(
    model: PreparedEncoder, engine: Engine, frames: np.ndarray, row: tuple[int, ...], folder: Path
) -> None:
    """What an extraction does with decoded frames: preprocessing, the network, the rows of the store."""
    values = ShardWriter(Path(tempfile.mkdtemp(dir=folder)), row, "float16", np.nan)
    everything = np.ones(BATCH_FRAMES, bool)
    writer = EmbeddingWriter(lambda batch: (model.preprocessing.images(batch.rgb), everything), engine, values)
    for first in range(0, len(frames), BATCH_FRAMES):
        batch = frames[first : first + BATCH_FRAMES]
        writer.add(FrameBatch(first, np.arange(first, first + len(batch)) / 15, batch))
    writer.finish()
    values.close()


def sections(root: Path, count: int) -> list[dict[str, Any]]:
    folder = timm_folder(root, _SMALL)
    return [{"name": f"model{number}", "kind": "image", "source": f"path:{folder}"} for number in range(count)]


def study(folder: Path, seconds: float, times: int = 1) -> Path:
    if not folder.exists():
        write_study(folder, SyntheticStudy(sessions=1, seconds=seconds, width=1280, height=720))
        for video in (folder / "videos").glob("*.avi"):
            if times > 1:
                repeat(video, times)
    return folder


def extracted(folder: Path, store: Path, wanted: list[dict[str, Any]]) -> None:
    """The features of sections, of the one session of a study."""
    from storyframes.store.layout import create_store

    create_store(store)
    names = ("frames", *(str(one["name"]) for one in wanted))
    plan = plan_extraction(load_study(folder), store, ExtractorsSettings(embed=wanted), Selection(only=names))
    for work in plan.units:
        for outcome in extract(work):
            if outcome.reason:
                raise SystemExit(f"{outcome.feature}: {outcome.reason}")


class Decoding:
    """Counts the CPU time that passes over frames take for decoding."""

    def __init__(self) -> None:
        self.cpu_s = 0.0

    def __enter__(self) -> Decoding:
        self._real = RecordingReader.batches
        RecordingReader.batches = lambda reader: self._read(reader)  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        RecordingReader.batches = self._real  # type: ignore[method-assign]

    def _read(self, reader: RecordingReader) -> Iterator[FrameBatch]:
        batches = self._real(reader)
        while True:
            start = cpu_seconds()
            batch = next(batches, None)
            self.cpu_s += cpu_seconds() - start
            if batch is None:
                return
            yield batch


def print_sharing(root: Path, seconds: float, runs: int) -> None:
    folder = study(root / "study", seconds)
    three = sections(root, 3)
    fresh = iter(range(10_000))
    decoding: dict[str, list[float]] = {}

    def passes(name: str, *wanted: list[dict[str, Any]]) -> None:
        with Decoding() as decoded:
            for one in wanted:
                extracted(folder, root / f"store{next(fresh)}", one)
        decoding.setdefault(name, []).append(decoded.cpu_s)

    jobs: dict[str, Callable[[], object]] = {
        "one pass, three models": lambda: passes("one pass, three models", three),
        "three passes of one": lambda: passes("three passes of one", *([one] for one in three)),
    }
    measured: Mapping[str, Measured] = interleave(jobs, runs)
    print(f"\nthree models (test_resnet) of a session of {seconds:.0f} s in 720p")
    for name, result in measured.items():
        print(f"  {name:<22} {result.cpu_s:6.2f} CPU-s, {statistics.median(decoding[name][1:]):.2f} of it decoding")
    shares = [statistics.median(decoding[name][1:]) for name in jobs]
    print(f"  decoding of three passes is {shares[1] / shares[0]:.2f} x that of the one they share")


def remember(root: Path, minutes: float) -> None:
    """A session of so many minutes; who asked reads this process's memory."""
    folder = study(root / f"minutes{minutes:g}", _PIECE_S, times=round(60 * minutes / _PIECE_S))
    with tempfile.TemporaryDirectory() as store:
        extracted(folder, Path(store) / "f", [*sections(root, 1), *_sampled(root)])


def _sampled(root: Path) -> list[dict[str, Any]]:
    (section,) = sections(root, 1)
    return [section | {"name": "sampled", "every_n_frames": 5}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--minutes", type=float, nargs="*", default=[1, 30])
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    if arguments.memory_of:
        where = json.loads(arguments.memory_of)
        remember(Path(where["root"]), where["minutes"])
        status = Path("/proc/self/status").read_text()
        print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
        return
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        print_beside_bare(root, arguments.runs)
        print_sharing(root, arguments.seconds, arguments.runs)
        print("\npeak memory of a process that extracts two models (test_resnet) of a session")
        for minutes in arguments.minutes:
            asked = json.dumps({"root": folder, "minutes": minutes})
            print(f"  {minutes:5g} minutes  {peak_memory_gb('benchmarks.extracting.embed_image', asked):6.2f} GB")


if __name__ == "__main__":
    main()
