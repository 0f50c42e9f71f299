"""The bound of a network in float32: a large matrix product by PyTorch, NumPy or OpenVINO, whichever is the fastest.

One thread. On one processor PyTorch's is the fastest, on another it is slower than a network in OpenVINO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.measure import Measured
from tasks.models.libraries import import_openvino

SIDE = 4096  # rows and columns of the matrices
GFLOP = 2 * SIDE**3 / 1e9
PREFIX = "matrix product, "


def products() -> dict[str, Callable[[], object]]:
    """The product of two matrices by each library."""
    openvino = import_openvino()
    matrix = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    tensor = torch.from_numpy(matrix)
    operands = [openvino.opset13.parameter([SIDE, SIDE], np.float32) for _ in range(2)]
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
        "matrix product, GFLOP a CPU-second:", ", ".join(f"{name} {GFLOP / cost:.0f}" for name, cost in costs.items())
    )
    return fastest, GFLOP / costs[fastest]
