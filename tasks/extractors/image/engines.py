"""What computes a network of pictures: OpenVINO on a processor, torch on a GPU or where OpenVINO is not installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.image.encoder import PreparedEncoder
from tasks.extractors.image.folding import fold_batch_norms
from tasks.extractors.image.network import EmbeddingNetwork
from tasks.extractors.settings import Device, EngineName, NetworkSettings, Precision
from tasks.extractors.torch_compute import (
    check_device,
    computing,
    fitting_batch_size,
    forward_in_batches,
    network_on,
    on_device,
    on_processor,
    torch_dtype,
)
from tasks.models.libraries import import_openvino, loading

_CPU_BATCH_SIZE = 8  # 4 to 16 take the same time an image
_TRIAL_BATCH_SIZE = 8
_TOO_LARGE = "the GPU has not enough free memory for one image: wait for what else runs there to end"
_KEPT = 8  # converted networks; a pass over the frames has one for each of its features
_TYPES = {Precision.FLOAT32: "f32", Precision.BFLOAT16: "bf16", Precision.FLOAT16: "f16"}
_CAPABILITIES = {Precision.FLOAT32: "FP32", Precision.BFLOAT16: "BF16", Precision.FLOAT16: "FP16"}


class Engine(Protocol):
    """A network at work."""

    device: str  # where: ``cpu`` or ``cuda``
    batch_size: int  # images that should be given to it together
    ahead: int  # how many batches may be under way while the next is prepared

    def start(self, images: np.ndarray) -> Callable[[], np.ndarray]:
        """Begin with (n, height, width, 3) uint8 RGB images; what is returned waits for their (n, …) float32 rows.

        Raises:
            ExtractionError: there is not enough memory for a single image.
        """


def open_engine(model: PreparedEncoder, settings: NetworkSettings) -> Engine:
    """The engine that the resolved settings name, ready.

    Raises:
        ExtractionError: the weights are damaged, or the engine is not installed or cannot compute in this precision.
    """
    if settings.engine is EngineName.TORCH:
        return TorchEngine(model, settings.precision, settings.batch_size, settings.device)
    return OpenVinoEngine(model, settings.precision, settings.batch_size, settings.cpus or 1)


class TorchEngine:
    """See :class:`Engine`.

    Several sessions may share one GPU, in threads or processes: each takes what memory it finds, and goes on with half
    the batch where another was faster.

    Args:
        batch_size: images; None for what suits the device.

    Raises:
        ExtractionError: there is no such device here, or the weights are damaged.
    """

    def __init__(
        self, model: PreparedEncoder, precision: Precision, batch_size: int | None = None, device: Device = Device.CPU
    ) -> None:
        device, precision = Device(device), Precision(precision)
        check_device(device, model.section)
        self.device = str(device)
        self._size = model.size
        self._tf32 = precision is Precision.TF32
        self._network = network_on(self.device, (model, precision), lambda: _folded(model, precision).to(self.device))
        self.ahead = 1 if self.device == "cuda" else 0
        self.batch_size = batch_size or (self._fitting_batch_size() if self.device == "cuda" else _CPU_BATCH_SIZE)

    def start(self, images: np.ndarray) -> Callable[[], np.ndarray]:
        return on_processor(self._embed(torch.from_numpy(images)))

    def _embed(self, images: torch.Tensor) -> torch.Tensor:
        """The embeddings on the device; a batch size that its memory does not hold is halved, for good."""
        rows, self.batch_size = forward_in_batches(self._forward, images, self.batch_size, _TOO_LARGE)
        return rows

    def _forward(self, images: torch.Tensor) -> torch.Tensor:
        images = on_device(images, self.device)
        with computing(self.device, tf32=self._tf32):
            return self._network(images).float()

    def _fitting_batch_size(self) -> int:
        images = torch.zeros(_TRIAL_BATCH_SIZE, *self._size, 3, dtype=torch.uint8)
        return fitting_batch_size(lambda: self._forward(images), _TRIAL_BATCH_SIZE)


def _folded(model: PreparedEncoder, precision: Precision) -> EmbeddingNetwork:
    """The network in this precision, channels last, with batch normalisations folded into convolutions."""
    network = model.build()
    if network.foldable:
        fold_batch_norms(network.pooled, model.size)
    pooled = network.pooled.to(torch_dtype(precision))
    # Torch declares no overload of `to` with a memory format alone.
    network.pooled = pooled.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


class OpenVinoEngine:
    """Networks on processors through OpenVINO, which comes close to what they can do; see :class:`Engine`.

    A network is converted from torch's, in memory. That takes seconds, so converted networks are kept for the sessions
    that this process will still see. Compiling it takes a fifth of a second and is done for every session: so two
    sessions in two threads of one process do not wait for each other, and nothing of a session stays behind.

    Args:
        batch_size: images; None for what suits.
        cpus: processors to use; each computes a batch of its own, with one thread.

    Raises:
        ExtractionError: OpenVINO is not installed or cannot compute so here, or the weights are damaged.
    """

    device = "cpu"

    def __init__(
        self, model: PreparedEncoder, precision: Precision, batch_size: int | None = None, cpus: int = 1
    ) -> None:
        self.batch_size = batch_size or _CPU_BATCH_SIZE
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


def compile_network(
    section: str, precision: Precision, convert: Callable[[], Any], threads: int = 1, streams: int = 1
) -> Any:
    """A network of OpenVINO's ready to compute, in this precision or not at all.

    Args:
        convert: gives the network; called once it is known that it can be computed.
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
        raise _unavailable(section, precision, "OpenVINO does not have it")
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": streams,
        "INFERENCE_PRECISION_HINT": _TYPES[precision],
        "ENABLE_CPU_PINNING": False,  # each worker process would pin itself to the same first processors
    }
    core = openvino.Core()
    # Asked first: where a processor lacks it, OpenVINO may say that it computes in it all the same.
    if _CAPABILITIES[precision] not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise _unavailable(section, precision, "this processor does not have it")
    with loading():
        network = convert()
        try:
            compiled = core.compile_model(network, "CPU", options)
        except RuntimeError as error:
            if precision is Precision.FLOAT32:
                raise
            raise _unavailable(section, precision, "OpenVINO cannot compute the network so here") from error
    computes_in = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if computes_in != _TYPES[precision]:
        raise _unavailable(section, precision, f"on this processor OpenVINO would compute in {computes_in}")
    return compiled


def convert_network(network: torch.nn.Module, example: torch.Tensor, shape: Sequence[int]) -> Any:
    """A torch network as OpenVINO's, for inputs of this shape, in which -1 is any number; both share their weights."""
    openvino = import_openvino()
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    with warnings.catch_warnings():
        # Conversion follows one input through the network and warns of every look at a size: sizes stay what they are.
        warnings.simplefilter("ignore")
        # torch would follow it twice more to compare, which is half of the time: in eval mode nothing is random.
        decoder = TorchScriptPythonDecoder(network, example_input=example, trace_kwargs={"check_trace": False})
        return openvino.convert_model(decoder, input=list(shape))


@lru_cache(maxsize=_KEPT)
def _converted(model: PreparedEncoder) -> Any:
    """The network as OpenVINO's; its weights stay in memory once."""
    example = torch.zeros(1, *model.size, 3, dtype=torch.uint8)
    return convert_network(model.build(), example, [-1, *model.size, 3])


def _unavailable(section: str, precision: str, why: str) -> ExtractionError:
    """The error of a precision that this machine does not have: the values would not be what the fingerprint says."""
    return ExtractionError(f"{section} precision = {str(precision)!r}: {why}; set precision = 'float32'")
