"""What DOPE costs: CPU-seconds per frame beside torchvision's Python RoIAlign, peak memory, and frames/s on a GPU.

    python -m benchmarks.extracting.dope [--repeats 5] [--checkpoint MODEL]

The processor's tables are of one thread. Variants run in turns, so that a busy machine slows all alike; the first turn
warms up and does not count. Without a checkpoint it takes the tests' fake model, whose maker lies, like the frames, in
the folder ``shared`` beside the checkout (or STORYFRAMES_SHARED).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # runs from a checkout, installed or not

import numpy as np  # noqa: E402
import torch  # noqa: E402
from support.dope.fake_checkpoint import fake_checkpoint, shared_folder  # noqa: E402

from benchmarks.measure import print_machine  # noqa: E402
from benchmarks.performance_page import record  # noqa: E402
from tasks.extractors.dope.checkpoint import Checkpoint, load_checkpoint  # noqa: E402
from tasks.extractors.dope.detector import DopeDetector  # noqa: E402
from tasks.extractors.dope.roi_ops import nms_in_torch, roi_align_in_torch  # noqa: E402
from tasks.extractors.dope.settings import DopeSettings  # noqa: E402
from tasks.models.libraries import import_torchvision  # noqa: E402

GPU_BATCHES = (1, 8, 32)
Seconds = Mapping[str, list[float]]


def torchvisions_python_roi_align(
    features: torch.Tensor, boxes: torch.Tensor, images: torch.Tensor, size: int, scale: float, border: object = None
) -> torch.Tensor:
    """As it is written, with one rule for the border. torchvision compiles it first where there is a C++ compiler."""
    import_torchvision()
    from torchvision.ops.roi_align import _roi_align

    return _roi_align.__wrapped__(features, _rois(boxes, images), scale, size, size, 2, False)


def torchvisions_roi_align(
    features: torch.Tensor, boxes: torch.Tensor, images: torch.Tensor, size: int, scale: float
) -> torch.Tensor:
    """As a caller of torchvision gets it in this environment: a compiled operator, or the above through a compiler."""
    import_torchvision()
    from torchvision.ops import roi_align

    return roi_align(features, _rois(boxes, images), size, scale, 2)


def _rois(boxes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return torch.cat([images[:, None].to(boxes), boxes], 1)


@dataclass(frozen=True)
class Variant:
    """One way to run DOPE; ``small`` is the reference's run r0 (256 x 286), otherwise r3 (676 x 1333)."""

    small: bool
    frames: int = 1
    engine: str = "openvino"
    pythons_roi_align: bool = False

    def __str__(self) -> str:
        roi_align = "torchvision's Python RoIAlign" if self.pythons_roi_align else "ours"
        return f"{'256 x 286' if self.small else '676 x 1333'}, {self.frames} at once, {self.engine}, {roi_align}"

    @property
    def settings(self) -> DopeSettings:
        size = {"min_size": 256, "max_size": 448} if self.small else {}
        return DopeSettings(device="cpu", engine=self.engine, batch_norm_eps=1e-5, frames_per_pass=self.frames, **size)

    def input(self) -> np.ndarray:
        with np.load(shared_folder() / "reference.npz") as archive:
            return np.stack([archive["image0" if self.small else "image3"]] * self.frames)

    def patched(self) -> AbstractContextManager[object]:
        if not self.pythons_roi_align:
            return nullcontext()
        return patch("tasks.extractors.dope.network.roi_align", torchvisions_python_roi_align)


VARIANTS = [
    *(Variant(small, frames) for small in (True, False) for frames in (1, 4)),
    *(
        Variant(small, engine="torch", pythons_roi_align=pythons)
        for small in (True, False)
        for pythons in (False, True)
    ),
]


def detect(detector: DopeDetector, variant: Variant, frames: np.ndarray) -> None:
    with variant.patched():
        detector.detect(frames)


def in_turns(jobs: Mapping[str, Callable[[], object]], repeats: int) -> Seconds:
    """CPU-seconds of each job, ``repeats`` times, after one turn that does not count."""
    measured: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            if turn:
                measured[name].append(time.process_time() - start)
    return measured


def print_operators(repeats: int) -> None:
    """NMS of 1000 boxes, RoIAlign of 633 boxes on the feature map of a default-size frame."""
    generator = torch.Generator().manual_seed(0)
    corners = torch.rand(1000, 2, 2, generator=generator).sort(1).values * torch.tensor([1333.0, 676.0])
    boxes, scores = corners.flatten(1), torch.rand(1000, generator=generator)
    features = torch.randn(1, 1024, 44, 84, generator=generator).to(memory_format=torch.channels_last)
    case = (features, boxes[:633], torch.zeros(633), 7, 1 / 16)
    seconds = in_turns(
        {
            "NMS, ours": partial(nms_in_torch, boxes, scores, 0.7),
            "RoIAlign, ours": partial(roi_align_in_torch, *case),
            "RoIAlign, torchvision's Python as written": partial(torchvisions_python_roi_align, *case),
            "RoIAlign, torchvision's as called here": partial(torchvisions_roi_align, *case),
        },
        repeats,
    )
    rows = [[name, f"{statistics.median(s):.3f} ({min(s):.3f} - {max(s):.3f})"] for name, s in seconds.items()]
    record("dope", ("operator (on the map of a default-size frame)", "CPU-s"), rows, ["torch", "torchvision"])


def print_frames(checkpoint: Path, repeats: int) -> None:
    model = load_checkpoint(checkpoint)
    seconds = in_turns(
        {str(v): partial(detect, DopeDetector(model, v.settings), v, v.input()) for v in VARIANTS}, repeats
    )
    rows = []
    for number, variant in enumerate(VARIANTS):
        runs = [run / variant.frames for run in seconds[str(variant)]]
        spent = f"{statistics.median(runs):.2f} ({min(runs):.2f} - {max(runs):.2f})"
        rows.append([str(variant), spent, f"{peak_memory(checkpoint, number):.2f} GB"])
    columns = ("frame after resizing, variant", "CPU-s per frame", "peak memory of the process")
    record("dope-2", columns, rows, ["torch", "torchvision", "openvino"])


def peak_memory(checkpoint: Path, number: int) -> float:
    """GB of resident memory of a process that loads the model and runs one variant once."""
    command = [sys.executable, __file__, "--checkpoint", str(checkpoint), "--memory-of", str(number)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1e6


def print_memory_of(checkpoint: Path, variant: Variant) -> None:
    detect(DopeDetector(load_checkpoint(checkpoint), variant.settings), variant, variant.input())
    # Not getrusage: its maximum would count this process's parent, from before the exec.
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


def print_gpu(model: Checkpoint, repeats: int) -> None:
    """Frames per second, wall clock, uint8 frames in, detections out, in the model's precision and in half."""
    frame = Variant(small=False).input()[0]
    print("| batch | precision | frames/s, median | smallest - largest |\n|---|---|---|---|")
    for half in sorted({model.half, True}):
        for batch in GPU_BATCHES:
            settings = DopeSettings(device="cuda", frames_per_pass=batch, boxes_per_pass=1024)
            detector, frames = DopeDetector(replace(model, half=half), settings), np.stack([frame] * batch)
            rates = []
            for _ in range(repeats + 1):
                start = time.perf_counter()
                detector.detect(frames)  # ends with detections in numpy, so nothing is left running
                rates.append(batch / (time.perf_counter() - start))
            rates = rates[1:]
            spread = f"{min(rates):.1f} - {max(rates):.1f}"
            print(f"| {batch} | float{16 if half else 32} | {statistics.median(rates):.1f} | {spread} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="a DOPE model file; the tests' fake model where not given")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not shared_folder().is_dir():
        print(f"DOPE: not measured, the reference frames are not at {shared_folder()}")
        return
    checkpoint = arguments.checkpoint or fake_checkpoint()
    torch.set_num_threads(1)
    if arguments.memory_of is not None:
        print_memory_of(checkpoint, VARIANTS[arguments.memory_of])
        return
    print_machine()
    print_operators(arguments.repeats)
    print()
    print_frames(checkpoint, arguments.repeats)
    print()
    if torch.cuda.is_available():
        print_gpu(load_checkpoint(checkpoint), arguments.repeats)
    else:
        print("No GPU here: frames/s for batches of 1, 8 and 32 not measured.")


if __name__ == "__main__":
    main()
