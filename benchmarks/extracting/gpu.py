"""Networks on a GPU: frames a second of whole features, of the decoder alone, of the bare networks alone.

    python -m benchmarks.extracting.gpu [--minutes 4] [--runs 3] [--only resnet50] [--device cuda]

A feature is bounded by the slower of the other two: as many decoders as there are sessions, one GPU for all. A bare
network is the library's own, on random images that lie on the GPU already; DOPE's is ours, from
resized frames to poses in boxes, without what makes detections of them. ResNet-50, timm's base vision transformer (its
patches are 16 pixels wide) and a wav2vec 2.0 of the base model's size have random weights; DOPE is the tests' fake
model, whose maker lies in the folder ``shared`` beside the checkout. For sound a frame is a second of it.

``--device cpu --minutes .02 --runs 1`` runs everything where there is no GPU, in float32: that it runs, nothing else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.extracting.embed_audio import RATE, model_folder
from benchmarks.extracting.embed_image import timm_folder
from benchmarks.extracting.long_session import repeat
from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from storyframes.store.layout import create_store
from tasks.extract import ExtractionUnit, extract
from tasks.extractors.frame_pass import BATCH_FRAMES
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.recording import read_frames
from tasks.media.sound import read_audio
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.libraries import import_torchvision
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import CLOCK, Selection
from tasks.study.load import load_study

_SESSIONS = (1, 2, 4)
_BATCH = {"cuda": 256, "cpu": 4}
_DTYPES = {"float16": torch.half, "bfloat16": torch.bfloat16, "tf32": torch.float32, "float32": torch.float32}
_PIECE_S = 10  # of a recording, which is repeated
_WINDOW_S = 30  # of sound that the bare network is given at once
_VIT = "vit_base_patch16_224"


@dataclass(frozen=True)
class Case:
    """A feature that a network computes.

    Attributes:
        feature: its name.
        settings: of extraction, by precision and by how many sessions share the GPU.
        network: frames a second of the bare network, by precision.
        decoder: gives how many frames it decoded of a recording.
        precisions: in what it computes on a GPU.
        sessions: at once; DOPE takes a GPU for itself.
        compiles: whether ``torch.compile`` takes the bare network.
    """

    feature: str
    settings: Callable[[str, int], Mapping[str, Any]]
    network: Callable[..., float]
    decoder: Callable[[Path], float]
    precisions: tuple[str, ...] = ("float16", "tf32", "float32")
    sessions: tuple[int, ...] = _SESSIONS
    compiles: bool = False


def cases(root: Path, device: str) -> Mapping[str, Case]:
    """By name, what is measured."""
    on_device = {"device": device}

    def resnet50(precision: str, sessions: int) -> Mapping[str, Any]:
        shared = {"precision": precision, "sessions_per_gpu": sessions, "allow_untrained": True}
        return {"resnet50": on_device | shared}

    def embedded(section: Mapping[str, Any], precision: str, sessions: int) -> Mapping[str, Any]:
        shared = {"precision": precision, "sessions_per_gpu": sessions}
        return {"embed": [{**section, **on_device, **shared, "source": f"path:{section['source']}"}]}

    found = {
        "resnet50": Case("resnet50", resnet50, partial(resnet50_alone, device), frames_decoded, compiles=True),
        "embed image": Case(
            "vit",
            partial(embedded, {"name": "vit", "kind": "image", "source": timm_folder(root, _VIT)}),
            partial(vit_alone, device),
            frames_decoded,
            precisions=("float16", "float32"),
            compiles=True,
        ),
        "embed audio": Case(
            "speech",
            partial(embedded, {"name": "speech", "kind": "audio", "source": model_folder(root, "base")}),
            partial(wav2vec2_alone, root / "base", device),
            seconds_decoded,
            precisions=("float16", "float32"),
        ),
    }
    if checkpoint := dope_checkpoint():
        found["dope"] = Case(
            "dope",
            lambda precision, _sessions: {"dope": on_device | {"model": str(checkpoint), "precision": precision}},
            partial(dope_alone, checkpoint, device),
            frames_decoded,
            precisions=("tf32", "float32"),
            sessions=(1,),
        )
    return found


def dope_checkpoint() -> Path | None:
    """The tests' fake model; None where its maker is not."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from support.dope.fake_checkpoint import fake_checkpoint, shared_folder

    return fake_checkpoint() if shared_folder().is_dir() else None


def write_sessions(folder: Path, minutes: float) -> None:
    """Recordings in 720p: at most ten seconds each, repeated."""
    seconds = min(_PIECE_S, 60 * minutes)
    write_study(folder, SyntheticStudy(sessions=max(_SESSIONS), seconds=seconds, width=1280, height=720))
    for video in sorted((folder / "videos").glob("*.avi")):
        repeat(video, round(60 * minutes / seconds))


def frames_decoded(video: Path) -> float:
    return sum(len(batch) for batch in read_frames(video, BATCH_FRAMES))


def seconds_decoded(video: Path) -> float:
    return sum(len(block.samples) for block in read_audio(video, RATE)) / RATE


def resnet50_alone(device: str, precision: str, *, compiled: bool = False) -> float:
    network = import_torchvision().models.resnet50(weights=None)
    return images_a_second(network, device, precision, compiled=compiled)


def vit_alone(device: str, precision: str, *, compiled: bool = False) -> float:
    import_torchvision()
    import timm

    return images_a_second(timm.create_model(_VIT, pretrained=False), device, precision, compiled=compiled)


def images_a_second(network: torch.nn.Module, device: str, precision: str, *, compiled: bool) -> float:
    dtype, batch = _DTYPES[precision], _BATCH[device]
    network = network.eval().to(device, dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(batch, 3, 224, 224, device=device, dtype=dtype).to(memory_format=torch.channels_last)
    return rate(partial(torch.compile(network) if compiled else network, images), batch, precision)


def wav2vec2_alone(folder: Path, device: str, precision: str) -> float:
    import_torchvision()
    from transformers import Wav2Vec2Model

    dtype, batch = _DTYPES[precision], max(_BATCH[device] // 32, 1)
    network = Wav2Vec2Model.from_pretrained(folder).eval().to(device, dtype)
    samples = torch.randn(batch, _WINDOW_S * RATE, device=device, dtype=dtype)
    return rate(partial(network, samples), batch * _WINDOW_S, precision)


def dope_alone(checkpoint: Path, device: str, precision: str) -> float:
    from tasks.extractors.dope.checkpoint import load_checkpoint
    from tasks.extractors.dope.detector import DopeDetector
    from tasks.extractors.dope.network import frame_size, network_input
    from tasks.extractors.dope.settings import DopeSettings

    detector = DopeDetector(load_checkpoint(checkpoint), DopeSettings(device=device, precision=precision))
    frames = torch.randint(0, 256, (detector.settings.frames_at_once, 720, 1280, 3), dtype=torch.uint8).numpy()
    images = network_input(list(frames), detector.options, detector.device)
    sizes = [frame_size(frame) for frame in frames]
    return rate(lambda: detector.network(images, sizes), len(frames), precision, repeats=2)


def rate(once: Callable[[], object], frames: int, precision: str, repeats: int = 10) -> float:
    """Frames a second of ``once``, which takes so many."""
    cuda = torch.cuda.is_available()
    wait: Callable[[], object] = torch.cuda.synchronize if cuda else int
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    numerics = torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=precision == "tf32")
    with torch.inference_mode(), numerics:
        once()  # cuDNN chooses its algorithms
        wait()
        started = time.perf_counter()
        for _ in range(repeats if cuda else 1):
            once()
        wait()
    return frames * (repeats if cuda else 1) / (time.perf_counter() - started)


def seconds_of_feature(root: Path, case: Case, precision: str, sessions: int) -> float:
    """Seconds of so many sessions at once, each in a thread, as a worker with as many threads does it."""
    settings = ExtractorsSettings.model_validate(case.settings(precision, sessions))
    names = tuple(f"s{number:04d}" for number in range(1, sessions + 1))
    with tempfile.TemporaryDirectory(dir=root) as folder:
        store = Path(folder) / "features"
        shutil.copytree(root / "clocks", store)
        plan = plan_extraction(load_study(root / "study"), store, settings, Selection(names, (case.feature,)))
        if len(plan.units) != sessions:
            raise SystemExit(f"nothing to do: {[outcome.reason for outcome in plan.settled]}")
        return seconds_of(plan.units)


def write_clocks(root: Path) -> None:
    """The frames' times of all sessions, which every feature takes as they are."""
    store = root / "clocks"
    create_store(store)
    seconds_of(plan_extraction(load_study(root / "study"), store, ExtractorsSettings(), Selection(only=(CLOCK,))).units)


def seconds_of(work: list[ExtractionUnit]) -> float:
    """By the clock, of all work at once."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(work)) as threads:
        outcomes = [outcome for outcomes in threads.map(extract, work) for outcome in outcomes]
    seconds = time.perf_counter() - started
    for outcome in outcomes:
        if outcome.reason:
            raise SystemExit(f"{outcome.session_id}: {outcome.reason}")
    return seconds


def measure(root: Path, name: str, case: Case, device: str, runs: int, *, compiled: bool) -> Iterator[list[str]]:
    """A feature beside its decoder and its network, in the columns of the table."""
    frames, seconds = 0.0, []
    for _ in range(runs):
        started = time.perf_counter()
        frames = case.decoder(root / "study/videos/s0001.avi")
        seconds.append(time.perf_counter() - started)
    decoder = frames / statistics.median(seconds)
    for precision in case.precisions if device == "cuda" else case.precisions[-1:]:
        network = statistics.median(case.network(precision) for _ in range(runs))
        if compiled and case.compiles:
            print(f"{name} in {precision}, compiled by torch: {case.network(precision, compiled=True):,.0f} a second")
        for sessions in case.sessions:
            ours = (
                sessions
                * frames
                / statistics.median(seconds_of_feature(root, case, precision, sessions) for _ in range(runs))
            )
            share = ours / min(sessions * decoder, network)
            numbers = [f"{each:,.0f}" for each in (sessions * decoder, network, ours)]
            yield [name, precision, str(sessions), *numbers, f"{share:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4, help="length of each session")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="resnet50, 'embed image', 'embed audio', dope")
    parser.add_argument("--compiled", action="store_true", help="also the bare networks compiled by torch")
    parser.add_argument("--device", choices=list(_BATCH), default="cuda")
    arguments, _ = parser.parse_known_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # as in a worker; read when torch is imported
        os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.extracting.gpu", *sys.argv[1:]])
    print_machine()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("Networks on a GPU: not measured, there is none here.")
        return
    device = torch.cuda.get_device_name() if arguments.device == "cuda" else "a processor, which measures nothing"
    print(f"{device}: 720p, {arguments.minutes:g} minutes a session, medians of {arguments.runs}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_sessions(root / "study", arguments.minutes)
        write_clocks(root)
        rows = []
        for name, case in cases(root, arguments.device).items():
            if arguments.only and name not in arguments.only:
                continue
            for row in measure(root, name, case, arguments.device, arguments.runs, compiled=arguments.compiled):
                print("  ".join(row), flush=True)
                rows.append(row)
            if arguments.device == "cuda":
                columns = (device, "precision", "sessions", "decoders", "network", "feature", "of the slower")
                record("networks-on-a-gpu", columns, rows, ("torch",))


if __name__ == "__main__":
    main()
