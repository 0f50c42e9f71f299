"""How far resnet50 in bfloat16 is from float32, beside what changes from one frame to the next; on any processor.

bfloat16 is emulated in float32, so that no processor with such units is needed: weights and whatever is handed from one
fused layer to the next are rounded to bfloat16 (convolution, bias, ReLU are one, and so is a block's last convolution
with the sum and ReLU behind it); products are summed in float32, and the average pool's result is not rounded. That is
how AMX multiplies and how OpenVINO fuses; the order of its sums is another.

The weights are random (seeded), with batch normalisations calibrated on the frames: this measures arithmetic, and needs
no published weights. The frames are the demo's first recording.
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from tasks.extractors.image.folding import fold_batch_norms
from tasks.extractors.resnet50 import ResNet50Weights, resnet50
from tasks.extractors.settings import Precision
from tasks.media.recording import read_frames

VIDEO = Path(__file__).parents[2] / "demo" / "study" / "videos" / "p01-s01.avi"
COLUMNS = (
    *("stages left in float32", "mean error, of the mean change to the next frame", "cosine with float32 (least)"),
    *("cosine of neighbours in float32", "rank agreement of the changes", "same nearest frame", "at most x float32"),
)
STAGES = {"stem": 0.029, "layer1": 0.166, "layer2": 0.253, "layer3": 0.357, "layer4": 0.196}  # shares of the products
FASTER = 5.2  # bfloat16 with AMX beside float32, measured (docs/performance.md)
IN_FLOAT32 = ((), ("stem",), ("layer4",), ("stem", "layer4"), ("stem", "layer1", "layer4"), ("layer3", "layer4"))


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.bfloat16).float()


def in_bfloat16(network: torch.nn.Module, but: tuple[str, ...]) -> torch.nn.Module:
    """The fused network with the roundings of bfloat16 in all stages but these."""
    for name, module in network.named_modules():
        if next((part for part in name.split(".") if part in STAGES), "stem") in but:
            continue
        if isinstance(module, torch.nn.Conv2d):
            module.weight.data = rounded(module.weight.data)
            module.register_forward_pre_hook(lambda _, given: tuple(map(rounded, given)))
        shortcut = "downsample" in name and isinstance(module, torch.nn.Conv2d)
        if isinstance(module, torch.nn.ReLU) or shortcut:
            module.register_forward_hook(lambda _, given, made: rounded(made))
    return network


def calibrated(images: torch.Tensor) -> torch.nn.Module:
    """The network with its batch normalisations fitted to the images, and folded."""
    prepared = resnet50(ResNet50Weights.V1, None).prepared(Precision.FLOAT32)
    network = prepared.build().pooled
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None
    network.train()(images)
    fold_batch_norms(network.eval(), prepared.size)
    return network


def ranks(values: np.ndarray) -> np.ndarray:
    return values.argsort().argsort()


def compared(exact: np.ndarray, coarse: np.ndarray) -> list[str]:
    """A row of the table: rows of both are consecutive frames."""

    def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)

    def distances(values: np.ndarray) -> np.ndarray:
        return np.linalg.norm(values[:, None] - values[None], axis=2) + np.diag(np.full(len(values), np.inf))

    error, change = np.abs(coarse - exact).mean(), np.abs(np.diff(exact, axis=0)).mean()
    steps = [np.linalg.norm(np.diff(values, axis=0), axis=1) for values in (exact, coarse)]
    agreement = np.corrcoef(*map(ranks, steps))[0, 1]
    nearest = (distances(exact).argmin(1) == distances(coarse).argmin(1)).mean()
    same, neighbours = cosines(exact, coarse), cosines(exact[1:], exact[:-1])
    cosine = f"{same.mean():.5f} ({same.min():.5f})"
    shares = f"{100 * error / change:.0f} %", f"{100 * nearest:.0f} %"
    return [shares[0], cosine, f"{neighbours.mean():.5f}", f"{agreement:.3f}", shares[1]]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=24)
    frames = parser.parse_args().frames
    print_machine()
    recording = np.concatenate([batch.rgb for batch in read_frames(VIDEO, 120)])
    spread = recording[:: max(len(recording) // 8, 1)]
    prepared = resnet50(ResNet50Weights.V1, None).prepared(Precision.FLOAT32)
    preset, crop = prepared.build(), prepared.preprocessing.images

    def images(pictures: np.ndarray) -> torch.Tensor:
        cropped = torch.from_numpy(crop(pictures))
        return (cropped.permute(0, 3, 1, 2) - preset.mean) / preset.std

    network, consecutive = calibrated(images(spread)), images(recording[:frames])
    exact = network(consecutive).numpy()
    print(f"{frames} consecutive frames")
    rows = []
    for but in IN_FLOAT32:
        coarse = in_bfloat16(deepcopy(network), but)(consecutive).numpy()
        slow = sum(STAGES[stage] for stage in but)
        faster = 1 / (slow + (1 - slow) / FASTER)
        rows.append([", ".join(but) or "none", *compared(exact, coarse), f"{faster:.1f}"])
    record("what-bfloat16-costs-resnet50", COLUMNS, rows, ["torch"])


if __name__ == "__main__":
    main()
