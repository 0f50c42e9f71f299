"""Networks through torch: on a GPU, or on a processor where OpenVINO is not installed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.fx.experimental.optimization import fuse

from tasks.extractors.base import ExtractionError
from tasks.extractors.image_networks.embedding_network import EmbeddingNetwork
from tasks.extractors.image_networks.engine import ImageModel
from tasks.extractors.image_networks.settings import Device, Precision
from tasks.models.one_thread import one_thread

_CPU_BATCH_SIZE = 8
_TRIAL_BATCH_SIZE = 8
_LARGEST_BATCH_SIZE = 256  # beyond it a GPU gains nothing
_DTYPES = {
    Precision.FLOAT32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.BFLOAT16: torch.bfloat16,
    Precision.FLOAT16: torch.float16,
}


class TorchEngine:
    """See :class:`tasks.extractors.image_networks.engine.Engine`.

    Several sessions may share one GPU, in threads or processes: each takes what memory it finds, and goes on with half
    the batch where another was faster.

    Args:
        model: which network.
        precision: in what it computes.
        batch_size: None for what suits.
        device: where.

    Raises:
        ExtractionError: there is no such device here, or the weights are damaged.
    """

    def __init__(
        self, model: ImageModel, precision: Precision, batch_size: int | None = None, device: Device = Device.CPU
    ) -> None:
        device, precision = Device(device), Precision(precision)
        if device is Device.CUDA and not torch.cuda.is_available():
            raise ExtractionError(
                f"{model.section} device = 'cuda': torch finds no GPU here; set device = 'cpu', or run it where "
                "there is one"
            )
        self.device = str(device)
        self._size = model.size
        self._tf32 = precision is Precision.TF32
        self._network = _fused(model.build(), precision).to(self.device)
        self.ahead = 1 if self.device == "cuda" else 0
        self.batch_size = batch_size or (self._fitting_batch_size() if self.device == "cuda" else _CPU_BATCH_SIZE)

    def start(self, images: np.ndarray) -> Callable[[], np.ndarray]:
        embeddings = self._embed(torch.from_numpy(images)).to("cpu", non_blocking=True)
        if self.device == "cpu":
            return embeddings.numpy
        copied = torch.cuda.Event()
        copied.record()  # so that waiting for this batch is not waiting for the next one as well

        def wait() -> np.ndarray:
            copied.synchronize()
            return embeddings.numpy()

        return wait

    def _embed(self, images: torch.Tensor) -> torch.Tensor:
        """The embeddings on the device; where its memory does not suffice the batch is halved, for good."""
        if len(images) <= self.batch_size:
            try:
                return self._forward(images)
            except torch.OutOfMemoryError:
                if len(images) == 1:
                    raise ExtractionError(
                        "the GPU has not enough free memory for one image: wait for what else runs there to end"
                    ) from None
                self.batch_size = len(images) // 2
            torch.cuda.empty_cache()  # what was allocated for the larger batch; does nothing without a GPU
        return torch.cat([self._embed(part) for part in images.split(self.batch_size)])

    def _forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.device == "cuda":
            images = images.pin_memory().to(self.device, non_blocking=True)
        with torch.inference_mode(), numerics(self._tf32) if self.device == "cuda" else one_thread():
            return self._network(images).float()

    def _fitting_batch_size(self) -> int:
        """Measured on a small batch."""
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self._forward(torch.zeros(_TRIAL_BATCH_SIZE, *self._size, 3, dtype=torch.uint8))
        needed = (torch.cuda.max_memory_allocated() - before) / _TRIAL_BATCH_SIZE
        free, _ = torch.cuda.mem_get_info()
        return largest_batch_size(free, needed)


_numerics_lock = threading.Lock()


@contextmanager
def numerics(tf32: bool) -> Iterator[None]:
    """cuDNN would use TF32 unasked, and its switch is the whole process's: one session at a time starts its kernels."""
    with _numerics_lock, torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=tf32):
        yield


def largest_batch_size(free: float, per_image: float) -> int:
    """The largest power of two of images that fit into half of the free memory, at most 256, at least 1."""
    size = _LARGEST_BATCH_SIZE
    while size > 1 and size * per_image > free / 2:
        size //= 2
    return size


def _fused(network: EmbeddingNetwork, precision: Precision) -> EmbeddingNetwork:
    """Channels last, in the wanted precision; every batch normalisation folded into its convolution where that goes."""
    pooled = fuse(network.pooled) if network.foldable else network.pooled
    network.pooled = pooled.to(_DTYPES[precision]).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network
