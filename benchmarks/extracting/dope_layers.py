"""DOPE's frame by part, with torch and with OpenVINO, beside the fastest matrix product; and its bfloat16.

    python -m benchmarks.extracting.dope_layers [--runs 5]

One thread, processor time, everything in turns. bfloat16 is emulated as in ``benchmarks.extracting.bfloat16``: weights
and whatever one fused layer hands to the next are rounded, sums are float32; so its effect on detections can be seen on
any processor, and its speed only where OpenVINO has it. The model is the tests' fake one: it does not show whether
poses are right, only how far they move.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.dope.fake_checkpoint import fake_checkpoint, shared_folder
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.extracting.bfloat16 import in_bfloat16, rounded
from benchmarks.extracting.matrix_product import bound, products
from benchmarks.measure import interleave, peak_memory_gb, print_machine
from benchmarks.performance_page import record
from tasks.extractors.dope.checkpoint import load_checkpoint
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.layers import STRIDE, TorchLayers
from tasks.extractors.dope.network import BINS, frame_size, network_input
from tasks.extractors.dope.people import FrameDetections, pose_boxes
from tasks.extractors.dope.postprocessing import frame_detections
from tasks.extractors.dope.roi_ops import roi_align
from tasks.extractors.dope.settings import DopeSettings
from tasks.models.libraries import import_openvino

SIZES = {"676 x 1333": {}, "256 x 286": {"min_size": 256, "max_size": 448}}
PICTURES = {"676 x 1333": "image3", "256 x 286": "image0"}
SAME = 0.25  # of its longer side: detections whose joints are nearer to each other than this on average are one

Job = Callable[[], object]


def opened(size: str, **settings: object) -> DopeDetector:
    chosen = {"device": "cpu", "batch_norm_eps": 1e-5, **SIZES[size], **settings}
    return DopeDetector(load_checkpoint(fake_checkpoint()), DopeSettings.model_validate(chosen))


def pictures() -> dict[str, np.ndarray]:
    with np.load(shared_folder() / "reference.npz") as archive:
        return {name: archive[name] for name in archive.files if name.startswith("image")}


@torch.inference_mode()
def jobs_of(detector: DopeDetector, frame: np.ndarray) -> dict[str, Job]:
    """What a frame consists of, each on its own, and the whole."""
    network, size = detector.network, frame_size(frame)
    images = network_input([frame], detector.options, detector.device)
    maps = network.layers.of_frames(images.tensors)
    (boxes,) = network.proposals(images, maps.objectness, maps.deltas)
    passes, frames = boxes.split(network.boxes_per_pass), torch.zeros(network.boxes_per_pass)
    crops = [roi_align(maps.features, batch, frames[: len(batch)], BINS, 1 / STRIDE) for batch in passes]
    (poses,) = network(images, [size])
    return {
        "resizing": partial(network_input, [frame], detector.options, detector.device),
        "layers of the frame": partial(network.layers.of_frames, images.tensors),
        "proposals, NMS": partial(network.proposals, images, maps.objectness, maps.deltas),
        "RoIAlign": lambda: [roi_align(maps.features, some, frames[: len(some)], BINS, 1 / STRIDE) for some in passes],
        "layers of the boxes": lambda: [network.layers.of_boxes(crop) for crop in crops],
        "grouping": partial(frame_detections, poses, detector.ppi, detector.settings),
        "a frame": partial(detector.detect, [frame]),
    }


def gflop(job: Job) -> float:
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        job()
    return counter.get_total_flops() / 1e9


def in_inference_mode(job: Job) -> None:
    with torch.inference_mode():
        job()


def print_parts(size: str, runs: int) -> list[list[str]]:
    """Prints and returns the table of a size."""
    frame = pictures()[PICTURES[size]]
    variants = {"torch": {"engine": "torch"}, "OpenVINO": {"engine": "openvino"}}
    if "BF16" in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        variants["OpenVINO, bfloat16"] = {"engine": "openvino", "precision": "bfloat16"}
    by_variant = {name: jobs_of(opened(size, **settings), frame) for name, settings in variants.items()}
    operations = {part: gflop(job) for part, job in by_variant["torch"].items()}
    jobs = {f"{name} {part}": partial(in_inference_mode, job) for name, those in by_variant.items()
            for part, job in those.items()}  # fmt: skip
    measured = interleave(jobs | products(), runs)
    library, rate = bound(measured)
    print(f"{size} after resizing; the bound is {library}'s matrix product, {rate:.0f} GFLOP a CPU-second")
    table = []
    for part, of_part in operations.items():
        costs = [measured[f"{name} {part}"].cpu_s for name in variants]
        least = of_part / rate
        cells = [f"{cost:.3f}: {least / cost:.2f}" if of_part > 1 else f"{cost:.3f}" for cost in costs]
        table.append([size, part, f"{of_part:.1f}", f"{least:.3f}", *cells, *[""] * (3 - len(cells))])
    for name in variants:
        memory = peak_memory_gb("benchmarks.extracting.dope_layers", f"{size},{name}")
        print(f"{name}: {memory:.2f} GB of memory at most, a process that sees three frames", flush=True)
    print()
    return table


def rounding(layers: TorchLayers) -> None:
    """The layers as bfloat16 has them."""
    in_bfloat16(layers, ())
    for module in layers.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = rounded(module.weight.data)
            module.register_forward_pre_hook(lambda _, given: tuple(map(rounded, given)))


def compared(exact: list[FrameDetections], other: list[FrameDetections], part: Part) -> list[str]:
    """A row of the table: which detections are in both, and how far these are from each other."""
    lost = new = 0
    score, pose2d, pose3d = [], [], []
    for a, b in zip((found.parts[part] for found in exact), (found.parts[part] for found in other), strict=True):
        if not len(a) or not len(b):
            lost, new = lost + len(a), new + len(b)
            continue
        apart = np.linalg.norm(a.pose2d[:, None] - b.pose2d[None], axis=-1).mean(-1)
        boxes = pose_boxes(a.pose2d)
        nearest, number = apart.argmin(1), np.arange(len(a))
        same = apart.argmin(0)[nearest] == number
        same &= apart[number, nearest] <= SAME * (boxes[:, 2:] - boxes[:, :2]).max(1)
        lost, new = lost + int((~same).sum()), new + len(b) - int(same.sum())
        score += list(np.abs(a.score[same] - b.score[nearest[same]]))
        pose2d += list(apart[number, nearest][same])
        pose3d += list(np.linalg.norm(a.pose3d[same] - b.pose3d[nearest[same]], axis=-1).mean(-1))
    count = sum(len(found.parts[part]) for found in exact)
    spread = (f"{np.median(of):.2g} ({max(of):.2g})" if of else "" for of in (score, pose2d, pose3d))
    return [part.value, str(count), str(lost), str(new), *spread]


def print_bfloat16() -> None:
    size, frames = "256 x 286", list(pictures().values())
    torchs, coarse = opened(size, engine="torch"), opened(size, engine="torch")
    assert isinstance(coarse.network.layers, TorchLayers)
    rounding(coarse.network.layers)
    exact = torchs.detect(frames)
    others = {"OpenVINO, float32": opened(size, engine="openvino").detect(frames), "bfloat16": coarse.detect(frames)}
    print(f"{len(frames)} pictures at the small size; beside torch in float32, median (largest)")
    columns = ("", "part", "detections", "lost", "new", "score", "joints in 2D, pixels", "joints in 3D")
    rows = [[name, *compared(exact, found, part)] for name, found in others.items() for part in Part]
    record("dope-in-bfloat16", columns, rows, ["torch", "openvino"])
    print_boxes(torchs, coarse, frames)


@torch.inference_mode()
def print_boxes(exact: DopeDetector, coarse: DopeDetector, frames: list[np.ndarray]) -> None:
    """Of the boxes of both: how many have a near one, and what the network says of the same ones."""
    apart, scores, counts = [], [], [0, 0]
    for frame in frames:
        images = network_input([frame], exact.options, exact.device)
        ((a,), (b,)) = (of.network(images, [frame_size(frame)]) for of in (exact, coarse))
        distance, nearest = (a.boxes[:, None] - b.boxes[None]).abs().amax(-1).min(1)
        apart.append(distance)
        near = distance < 2
        for part in Part:
            difference = a.parts[part].scores[near] - b.parts[part].scores[nearest[near]]
            scores.append(difference.abs().amax(1))
        counts = [counts[0] + len(a.boxes), counts[1] + len(b.boxes)]
    distances, differences = torch.cat(apart), torch.cat(scores)
    print(f"boxes: {counts[0]}, in bfloat16 {counts[1]}; {100 * (distances < 2).float().mean():.0f} % of them have one "
          f"within 2 pixels (median {distances[distances < 2].median():.2g}); the largest score of those differs by "
          f"{differences.median():.2g} (median), {differences.max():.2g} (largest)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", action="append", choices=SIZES, help="speed at this size alone; may be given again")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    if not shared_folder().is_dir():
        print(f"DOPE: not measured, the reference frames are not at {shared_folder()}")
        return
    if arguments.memory_of:
        size, *variant = arguments.memory_of.split(",")
        settings = {"engine": variant[0].lower()} | ({"precision": "bfloat16"} if len(variant) > 1 else {})
        detector, frame = opened(size, **settings), pictures()[PICTURES[size]]
        for _ in range(3):
            detector.detect([frame])
        print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
        return
    print_machine()
    if not arguments.size:
        print_bfloat16()
    print()
    columns = ("frame", "part", "GFLOP", "bound, CPU-s", "torch, CPU-s: of the bound", "OpenVINO", "OpenVINO, bfloat16")
    for size in arguments.size or SIZES:  # a table of its own for each, so that none replaces another's
        rows = print_parts(size, arguments.runs)
        record(f"dope-bounds-{size.replace(' ', '')}", columns, rows, ["torch", "openvino"])


if __name__ == "__main__":
    main()
