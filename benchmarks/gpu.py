"""ResNet-50 on a GPU: frames a second of the whole feature, of the decoder alone, of the network alone.

    python -m benchmarks.gpu [--minutes 4]

The feature is bounded by the smaller of the other two: a decoder per session, one GPU for all. The network alone is
torchvision's, channels last, in half precision, on random images that lie on the GPU already.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.long_session import repeat
from benchmarks.measure import print_machine
from tasks.extract import Work, extract
from tasks.extractors.frame_pass import BATCH_FRAMES
from tasks.extractors.registry import ExtractorsSettings
from tasks.media.recording import read_frames
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.models.torchvision_import import import_torchvision
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import CLOCK, Selection
from tasks.study.load import load_study

_SESSIONS = (1, 2, 4)
_BATCH = 256
_RUNS = 3


def write_sessions(folder: Path, minutes: float) -> None:
    """Recordings in 720p: ten seconds each, repeated."""
    write_study(folder, SyntheticStudy(sessions=max(_SESSIONS), seconds=10, width=1280, height=720))
    for video in sorted((folder / "videos").glob("*.avi")):
        repeat(video, round(60 * minutes / 10))


def decoder_alone(video: Path) -> int:
    return sum(len(batch) for batch in read_frames(video, BATCH_FRAMES))


def network_alone() -> int:
    network = import_torchvision().models.resnet50(weights=None).eval().cuda().half()
    network = network.to(memory_format=torch.channels_last)
    images = torch.randn(_BATCH, 3, 224, 224, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
    with torch.inference_mode():
        network(images)  # cuDNN chooses its algorithms
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(10):
            network(images)
        torch.cuda.synchronize()
    return round(10 * _BATCH / (time.perf_counter() - started))


def feature(folder: Path, sessions: int, precision: str) -> int:
    """Frames of so many sessions at once, each in a thread, as a worker with as many threads does it."""
    settings = ExtractorsSettings.model_validate(
        {
            "resnet50": {
                "device": "cuda",
                "precision": precision,
                "allow_untrained": True,
                "sessions_per_gpu": sessions,
            }
        }
    )
    names = tuple(f"s{number:04d}" for number in range(1, sessions + 1))
    asked = Selection(names, ("resnet50",), force=True)
    plan = plan_extraction(load_study(folder / "study"), folder / "features", settings, asked)
    for unit in plan.work:
        if unit.features == (CLOCK,):
            extract(unit)
    return _together([unit for unit in plan.work if unit.features == ("resnet50",)])


def _together(work: list[Work]) -> int:
    started = time.perf_counter()
    with ThreadPoolExecutor(len(work)) as threads:
        outcomes = [outcome for outcomes in threads.map(extract, work) for outcome in outcomes]
    seconds = time.perf_counter() - started
    for outcome in outcomes:
        if outcome.reason:
            raise SystemExit(f"{outcome.session_id}: {outcome.reason}")
    return round(sum(outcome.rows for outcome in outcomes) / seconds)


def _per_second(frames: Callable[[], int]) -> float:
    rates = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        count = frames()
        rates.append(count / (time.perf_counter() - started))
    return statistics.median(rates)


def print_gpu(minutes: float = 4) -> None:
    """The table, or that there is no GPU."""
    if not torch.cuda.is_available():
        print("ResNet-50 on a GPU: not measured, there is none here.")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_sessions(folder / "study", minutes)
        decoder = _per_second(lambda: decoder_alone(folder / "study/videos/s0001.avi"))
        network = statistics.median(network_alone() for _ in range(_RUNS))
        print(f"ResNet-50 on {torch.cuda.get_device_name()}: 720p, {minutes:g} minutes a session, medians of {_RUNS}")
        print(f"  one decoder alone {decoder:8.0f} frames/s\n  the network alone {network:8.0f} images/s, float16")
        for precision in ("float16", "tf32", "float32"):
            for sessions in _SESSIONS:
                rate = statistics.median(feature(folder, sessions, precision) for _ in range(_RUNS))
                bound = min(sessions * decoder, network)
                print(f"  {precision:<8} {sessions} at once {rate:8.0f} frames/s  {rate / bound:5.2f} of the smaller")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4, help="length of each session")
    arguments, _ = parser.parse_known_args()
    print_machine()
    print_gpu(arguments.minutes)


if __name__ == "__main__":
    main()
