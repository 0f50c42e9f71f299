"""How every network here computes through torch: on one thread of a processor, or on a GPU whose memory is shared.

Imports torch, so only modules that load a network import this one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.settings import Device, Precision
from tasks.models.libraries import loading

_LARGEST_BATCH_SIZE = 64  # beyond it a GPU gains little, and a session waits until as many frames are decoded
_DTYPES = {Precision.BFLOAT16: torch.bfloat16, Precision.FLOAT16: torch.float16}
_KEPT = 8  # networks on a GPU; a pass over the frames has one for each of its features
_T = TypeVar("_T")
_kept: dict[Hashable, Any] = {}  # the least recently used one first


def torch_dtype(precision: Precision) -> torch.dtype:
    """The type of the network's weights; TF32 is a way to multiply float32."""
    return _DTYPES.get(precision, torch.float32)


def check_device(device: str, label: str) -> None:
    """Refuse a GPU that is not here: a processor never takes its place.

    Raises:
        ExtractionError: there is none; the message begins with ``label``.
    """
    if device == Device.CUDA and not torch.cuda.is_available():
        raise ExtractionError(
            f"{label} device = 'cuda': torch finds no GPU here; set device = 'cpu', or run it where there is one"
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes in one thread inside, and in as many as before afterwards.

    With more threads, sums are added in another order, and values differ. So a study's worker, a worker of another
    cluster and a notebook give the same values for one fingerprint. Sessions, not threads, keep processors busy.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def network_on(device: str, key: Hashable, make: Callable[[], _T]) -> _T:
    """What ``make`` gives; on a GPU it is kept, and all sessions of this process have it together.

    There it computes for one thread at a time. On a processor two would compute at once, which a network with hooks
    does not bear, and each session has its own.

    Args:
        key: two that are equal have equal networks.
    """
    with loading():
        if device == "cpu":
            return make()
        network = _kept.pop(key, None)
        while network is None:
            try:
                network = make()
                break
            except torch.OutOfMemoryError:
                if not _kept:
                    raise
            let_go()  # not above, where the error still holds what was made
        _kept[key] = network
        if len(_kept) > _KEPT:
            del _kept[next(iter(_kept))]
        return network


def let_go() -> bool:
    """Keep no networks: the memory of those that no session has at work is free; whether there were any."""
    with loading():
        had_any = bool(_kept)
        _kept.clear()
        gc.collect()  # a network may be part of a circle
        torch.cuda.empty_cache()  # does nothing without a GPU
        return had_any


@contextmanager
def computing(device: str, *, tf32: bool) -> Iterator[None]:
    """Around a forward pass: no gradients, and the same numerics wherever it runs.

    TF32 is switched for the whole process, of convolutions (cuDNN has it on unasked) and of matrix products: one
    thread at a time starts its kernels. cuDNN does not try its algorithms: that takes seconds for each shape of inputs
    in each thread, and decoding, not the network, is what a session waits for.
    """
    with torch.inference_mode():
        if device == "cpu":
            with one_thread():
                yield
            return
        products = torch.backends.cuda.matmul
        with loading(), torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32):
            before = products.allow_tf32
            products.allow_tf32 = tf32
            try:
                yield
            finally:
                products.allow_tf32 = before


def on_device(inputs: torch.Tensor, device: str) -> torch.Tensor:
    """The inputs on the device; copying to a GPU does not wait."""
    return inputs if device == "cpu" else inputs.pin_memory().to(device, non_blocking=True)


def on_processor(rows: torch.Tensor) -> Callable[[], np.ndarray]:
    """Begin to copy rows from the device; what is returned waits for them.

    The waiting thread sleeps. CUDA's usual way of waiting keeps a processor busy, on which another process or another
    thread of this one could decode.
    """
    copied = rows.to("cpu", non_blocking=True)
    if rows.device.type == "cpu":
        return copied.numpy
    done = torch.cuda.Event(blocking=True)
    done.record()  # so that waiting for these rows is not waiting for a later batch as well

    def wait() -> np.ndarray:
        done.synchronize()
        return copied.numpy()

    return wait


def forward_in_batches(
    forward: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor, batch_size: int, too_large: str
) -> tuple[torch.Tensor, int]:
    """The network's rows for ``inputs``; if a GPU's memory is too small for a batch, it is halved.

    Args:
        forward: inputs in, their rows out.
        inputs: (n, …), in batches along the first axis.
        batch_size: how many go through together at most.
        too_large: the error's message if the memory does not hold a single one.

    Returns:
        The rows, and the batch size that the memory holds.

    Raises:
        ExtractionError: with ``too_large``.
    """
    if len(inputs) <= batch_size:
        try:
            return forward(inputs), batch_size
        except torch.OutOfMemoryError:
            batch_size = len(inputs) // 2
        if not let_go() and not batch_size:
            raise ExtractionError(too_large)
        batch_size = max(batch_size, 1)
    rows = []
    for part in inputs.split(batch_size):
        part_rows, batch_size = forward_in_batches(forward, part, batch_size, too_large)
        rows.append(part_rows)
    return torch.cat(rows), batch_size


def fitting_batch_size(forward: Callable[[], object], inputs: int) -> int:
    """How many inputs half of the GPU's free memory holds, measured on a forward pass of so many."""
    with loading():  # the peak is the whole process's: no other session may compute meanwhile
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        forward()
        needed = (torch.cuda.max_memory_allocated() - before) / inputs
        free, _ = torch.cuda.mem_get_info()
    return largest_batch_size(free, needed)


def largest_batch_size(free: float, per_input: float) -> int:
    """The largest power of two of inputs that fit into half of the free memory, at most 64, at least 1."""
    size = _LARGEST_BATCH_SIZE
    while size > 1 and size * per_input > free / 2:
        size //= 2
    return size
