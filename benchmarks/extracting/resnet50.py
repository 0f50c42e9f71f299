"""ResNet-50: this project beside the eager torch loop that one would write first, OpenVINO itself, and the processor.

    python -m benchmarks.extracting.resnet50 [--runs 5]

One thread where nothing else is said. Every candidate has the same images, the same (random) weights and runs in turns
with the others. The bound is what the fastest large matrix product in float32 costs, at 8.2 GFLOP an image.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.measure import Measured, interleave, peak_memory_gb, print_machine
from benchmarks.performance_page import record, show
from tasks.extractors.image.engines import Engine, open_engine
from tasks.extractors.image.network import EmbeddingNetwork
from tasks.extractors.resnet50 import ResNet50Settings, ResNet50Weights, resnet50
from tasks.extractors.settings import Precision
from tasks.models.libraries import import_openvino

V1 = ResNet50Weights.V1
MODEL = resnet50(V1, None, "untrained").prepared(Precision.FLOAT32)
SIDE = MODEL.size[0]
IMAGES = 32  # of each turn
BATCH = 8
GFLOP = 8.2  # of an image
FRAMES_PER_MINUTE = 15 * 60
EAGER_BATCHES = (1, 8, 32)  # frame by frame; what ours has, where eager torch costs least; as for training
EAGER = "eager loop, by 8"
PRODUCT_SIDE = 4096  # rows and columns of the matrices
PRODUCT_GFLOP = 2 * PRODUCT_SIDE**3 / 1e9
PREFIX = "matrix product, "

Job = Callable[[], object]


def frames_720p(count: int) -> np.ndarray:
    """(n, 720, 1280, 3) uint8: smooth shapes with some noise, as a camera gives them."""
    generator = np.random.default_rng(0)
    coarse = torch.from_numpy(generator.uniform(0, 255, (count, 3, 9, 16)).astype(np.float32))
    smooth = torch.nn.functional.interpolate(coarse, (720, 1280), mode="bilinear").permute(0, 2, 3, 1).numpy()
    return (smooth + generator.normal(0, 3, smooth.shape)).clip(0, 255).astype(np.uint8)


def in_batches(engine: Engine, images: np.ndarray) -> None:
    """As the extractor feeds it: as much under way as the engine wants."""
    waiting: list[Callable[[], np.ndarray]] = []
    for first in range(0, len(images), BATCH):
        waiting.append(engine.start(images[first : first + BATCH]))
        if len(waiting) > engine.ahead:
            waiting.pop(0)()
    for wait in waiting:
        wait()


def peers_network() -> EmbeddingNetwork:
    """torchvision's network as it comes: float32, NCHW, batch normalisation on its own."""
    return MODEL.build()


def peers_loop(network: EmbeddingNetwork, images: torch.Tensor, batch_size: int, threads: int = 1) -> None:
    """Eager torch on images that are normalised tensors already."""
    torch.set_num_threads(threads)
    with torch.inference_mode():
        for batch in images.split(batch_size):
            network.pooled(batch)
    torch.set_num_threads(1)


def openvino_itself(images: np.ndarray) -> Job:
    """OpenVINO as its documentation has it, one thread: convert, compile, call."""
    openvino = import_openvino()
    example = torch.zeros(1, SIDE, SIDE, 3, dtype=torch.uint8)
    converted = openvino.convert_model(peers_network(), example_input=example, input=[-1, SIDE, SIDE, 3])
    options = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(converted, "CPU", options)
    return lambda: [compiled(images[first : first + BATCH]) for first in range(0, len(images), BATCH)]


def ours(images: np.ndarray, **settings: object) -> Job:
    return partial(in_batches, open_engine(MODEL, ResNet50Settings.model_validate(settings).resolved()), images)


def candidates(count: int) -> dict[str, Callable[[], Job]]:
    """What is measured, each made when it is needed: a process of its own measures the memory of each."""
    images = MODEL.preprocessing.images(frames_720p(2)).repeat(count // 2, axis=0)
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    made: dict[str, Callable[[], Job]] = {
        **{
            f"eager loop, by {size}": partial(lambda size: partial(peers_loop, peers_network(), tensors, size), size)
            for size in EAGER_BATCHES
        },
        "OpenVINO itself": lambda: openvino_itself(images),
        "torch, fused": lambda: ours(images, engine="torch", batch_size=BATCH),
        "float32": lambda: ours(images),
        "bfloat16": lambda: ours(images, precision=Precision.BFLOAT16),
        f"{EAGER}, 2 threads": lambda: partial(peers_loop, peers_network(), tensors, 8, threads=2),
        "float32, 2 threads": lambda: ours(images, cpus=2),
        "bfloat16, 2 threads": lambda: ours(images, cpus=2, precision="bfloat16"),
    }
    return {name: make for name, make in made.items() if "bfloat16" not in name or _has_bfloat16()}


def _has_bfloat16() -> bool:
    return "BF16" in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def images_of(name: str) -> float:
    """How many images a turn of a candidate is."""
    return PRODUCT_GFLOP / GFLOP if name == "matrix product" else IMAGES


def products() -> dict[str, Callable[[], object]]:
    """The product of two matrices by each library."""
    openvino = import_openvino()
    matrix = np.random.default_rng(0).random((PRODUCT_SIDE, PRODUCT_SIDE), np.float32)
    tensor = torch.from_numpy(matrix)
    operands = [openvino.opset13.parameter([PRODUCT_SIDE, PRODUCT_SIDE], np.float32) for _ in range(2)]
    model = openvino.Model([openvino.opset13.matmul(*operands, False, False)], operands)
    options = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
    infer = partial(request.infer, [matrix, matrix], share_inputs=True, share_outputs=True)

    def by_numpy() -> None:
        with threadpool_limits(1):
            np.matmul(matrix, matrix)

    jobs = {"torch": partial(torch.mm, tensor, tensor), "NumPy": by_numpy, "OpenVINO": infer}
    return {f"{PREFIX}{library}": job for library, job in jobs.items()}


def bound(measured: Mapping[str, Measured]) -> tuple[str, float]:
    """The library with the fastest product, and its GFLOP a CPU-second."""
    costs = {name.removeprefix(PREFIX): of.cpu_s for name, of in measured.items() if name.startswith(PREFIX)}
    fastest = min(costs, key=lambda name: costs[name])
    print(
        "matrix product, GFLOP a CPU-second:",
        ", ".join(f"{name} {PRODUCT_GFLOP / cost:.0f}" for name, cost in costs.items()),
    )
    return fastest, PRODUCT_GFLOP / costs[fastest]


def print_models(runs: int) -> None:
    """Measure and record the table; print how much faster than the eager loop the others are."""
    made = candidates(IMAGES)
    measured = interleave(products() | {name: make() for name, make in made.items()}, runs)
    fastest = f"{PREFIX}{bound(measured)[0]}"
    print(f"the bound is {fastest}")
    measured = {"matrix product": measured[fastest]} | {name: measured[name] for name in made}
    cost = {name: result.cpu_s / images_of(name) for name, result in measured.items()}
    columns = ("candidate", "CPU-ms an image", "of the matrix product", "images/s", "CPU-s a session-minute", "peak GB")
    rows = [[name, *_figures(name, result, cost)] for name, result in measured.items()]
    record("resnet-50-on-a-processor", columns, rows, ["torch", "openvino"])
    rows = [
        [name, *(f"{cost[f'eager loop, by {size}'] / cost[name]:.2f}" for size in EAGER_BATCHES), wanted]
        for name, wanted in (("matrix product", ""), ("float32", "1.6"), ("bfloat16", "3.2"))
        if name in cost
    ]
    columns = ("times as fast as the eager loop, per CPU-second", *(f"by {size}" for size in EAGER_BATCHES), "wanted")
    show(columns, rows)
    for name in (EAGER, "float32", "bfloat16"):
        if f"{name}, 2 threads" in cost:
            print(f"  {name}: an image costs {cost[f'{name}, 2 threads'] / cost[name]:.2f} x as much with 2 threads")


def _figures(name: str, result: Measured, cost: dict[str, float]) -> list[str]:
    memory = "" if name == "matrix product" else f"{peak_memory_gb('benchmarks.extracting.resnet50', name):.2f}"
    of_product = f"{cost['matrix product'] / cost[name]:.2f}"
    images_per_s, minute_s = f"{images_of(name) / result.wall_s:.1f}", f"{FRAMES_PER_MINUTE * cost[name]:.1f}"
    return [f"{1000 * cost[name]:.1f}", of_product, images_per_s, minute_s, memory]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    if arguments.memory_of:
        candidates(IMAGES)[arguments.memory_of]()()
        status = Path("/proc/self/status").read_text()
        print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
        return
    print_machine()
    print_models(arguments.runs)


if __name__ == "__main__":
    main()
