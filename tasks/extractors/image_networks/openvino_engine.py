"""Networks on processors through OpenVINO, which comes close to what they can do.

A network is converted from torch's, in memory. That takes seconds, so converted networks are kept for the sessions
that this process will still see. Compiling it takes a fifth of a second and is done for every session: so two
sessions in two threads of one process do not wait for each other, and nothing of a session stays behind.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.image_networks.engine import ImageModel, unavailable
from tasks.extractors.image_networks.settings import Precision
from tasks.models.libraries import import_openvino

_BATCH_SIZE = 8  # 4 to 16 take the same time an image
_KEPT = 8  # converted networks; a pass over the frames has one for each of its features
_TYPES = {Precision.FLOAT32: "f32", Precision.BFLOAT16: "bf16", Precision.FLOAT16: "f16"}
_CAPABILITIES = {Precision.FLOAT32: "FP32", Precision.BFLOAT16: "BF16", Precision.FLOAT16: "FP16"}


class OpenVinoEngine:
    """See :class:`tasks.extractors.image_networks.engine.Engine`.

    Args:
        model: which network.
        precision: in what it computes.
        batch_size: None for what suits.
        cpus: processors to use; each computes a batch of its own, with one thread.

    Raises:
        ExtractionError: OpenVINO is not installed or cannot compute so here, or the weights are damaged.
    """

    device = "cpu"

    def __init__(self, model: ImageModel, precision: Precision, batch_size: int | None = None, cpus: int = 1) -> None:
        self.batch_size = batch_size or _BATCH_SIZE
        self.ahead = cpus if cpus > 1 else 0  # on one processor nothing is gained by preparing while it computes
        compiled = compile_network(model.section, precision, partial(_converted, model), cpus, cpus)
        self._requests = [compiled.create_infer_request() for _ in range(self.ahead + 1)]
        self._started = 0

    def start(self, images: np.ndarray) -> Callable[[], np.ndarray]:
        # In turns: the caller has collected what this request did before, as no more than ``ahead`` are under way.
        request = self._requests[self._started % len(self._requests)]
        self._started += 1
        request.start_async([images], share_inputs=True)

        def wait() -> np.ndarray:
            request.wait()
            return np.array(request.get_output_tensor().data[: len(images)])

        return wait


_compiling = threading.Lock()


def compile_network(
    section: str, precision: Precision, convert: Callable[[], Any], threads: int = 1, streams: int = 1
) -> Any:
    """A network of OpenVINO's ready to compute, in this precision or not at all.

    Args:
        section: of the configuration, for messages.
        precision: in what it computes.
        convert: gives the network; called once it is known that it can be computed.
        threads: processors to use.
        streams: how many batches are computed at once, each by its share of the threads.

    Raises:
        ExtractionError: OpenVINO is not installed or cannot compute so here.
    """
    try:
        openvino = import_openvino()
    except ImportError:
        raise ExtractionError(
            f"{section} engine = 'openvino': the package openvino is not installed here; install it, or set "
            "engine = 'torch'"
        ) from None
    if precision not in _TYPES:
        raise unavailable(section, precision, "OpenVINO does not have it")
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": streams,
        "INFERENCE_PRECISION_HINT": _TYPES[precision],
        "ENABLE_CPU_PINNING": False,  # each worker process would pin itself to the same first processors
    }
    core = openvino.Core()
    # Asked first: where a processor lacks it, OpenVINO may say that it computes in it all the same.
    if _CAPABILITIES[precision] not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise unavailable(section, precision, "this processor does not have it")
    with _compiling:
        compiled = core.compile_model(convert(), "CPU", options)
    computes_in = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if computes_in != _TYPES[precision]:
        raise unavailable(section, precision, f"on this processor OpenVINO would compute in {computes_in}")
    return compiled


def convert_network(network: torch.nn.Module, example: torch.Tensor, shape: Sequence[int]) -> Any:
    """A torch network as OpenVINO's, for inputs of this shape, in which -1 is any number; both share their weights."""
    with warnings.catch_warnings():
        # Conversion follows one input through the network and warns of every look at a size: sizes stay what they are.
        warnings.simplefilter("ignore")
        return import_openvino().convert_model(network, example_input=example, input=list(shape))


@lru_cache(maxsize=_KEPT)
def _converted(model: ImageModel) -> Any:
    """The network as OpenVINO's; its weights stay in memory once."""
    example = torch.zeros(1, *model.size, 3, dtype=torch.uint8)
    return convert_network(model.build(), example, [-1, *model.size, 3])
