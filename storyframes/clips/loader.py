"""Batches of clips as torch tensors, read ahead by threads. Needs PyTorch (the extra ``storyframes[loader]``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from storyframes.clips.batch_buffers import BatchBuffers
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import Batch
from storyframes.clips.samplers import ClipSampler, SequentialSampler
from storyframes.installation import install_line
from storyframes.mistakes import explained

if TYPE_CHECKING:
    import torch


class ClipLoader:
    """Batches of a dataset's clips in a sampler's order: dicts of tensors by field, clips first.

    Reading copies rows from mapped files and does not hold the interpreter's lock, so threads replace worker processes,
    and nothing is sent between processes. A batch may be kept: its memory is used for another one only when nothing
    refers to it any more.

    Args:
        batch_size: clips of a batch; the last batch of an epoch may be smaller.
        sampler: the order of the clips; None takes the dataset's.
        threads: the number of batches that are read at the same time.
        prefetch: the number of batches that are read ahead of the one in use.
        drop_last: leave out the last batch if it is smaller.
        device: where batches are copied to. Copies to a CUDA device are asynchronous, from pinned memory; float16 stays
            float16, to be cast on the device.

    Raises:
        ValueError: a number is less than 1.
        ModuleNotFoundError: PyTorch is not installed.

    Example:
        >>> from storyframes import ClipDataset, ClipLoader, UniformSampler
        >>> dataset = ClipDataset("STORE", ["resnet50", "label"], 'split == "train"')
        >>> loader = ClipLoader(dataset, 4, UniformSampler(dataset, seed=1), drop_last=True)
        >>> batch = next(iter(loader))
        >>> batch["resnet50"].shape, batch["resnet50"].dtype
        (torch.Size([4, 120, 2048]), torch.float16)
        >>> batch["label"].shape, batch["label"].dtype
        (torch.Size([4]), torch.int64)
    """

    @explained(
        "ClipLoader(dataset, 16, UniformSampler(dataset, seed=1))",
        shuffle="UniformSampler(dataset, seed=1) as the sampler, which shuffles",
        num_workers="threads=2, which read without processes",
        pin_memory="device='cuda', which copies through pinned memory",
        prefetch_factor="prefetch=4, in batches",
        collate_fn="code in the loop: batches are stacked already",
        batch_sampler="a sampler and batch_size",
        generator="the seed of the sampler",
    )
    def __init__(
        self,
        dataset: ClipDataset,
        batch_size: int,
        sampler: ClipSampler | None = None,
        *,
        threads: int = 2,
        prefetch: int = 4,
        drop_last: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, number in (("batch_size", batch_size), ("threads", threads), ("prefetch", prefetch)):
            if number < 1:
                raise ValueError(f"{name}={number} has to be at least 1")
        self._torch = _import_torch()
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler or SequentialSampler(dataset)
        self.threads = threads
        self.prefetch = prefetch
        self.drop_last = drop_last
        self.device = self._torch.device(device)
        self._buffers = BatchBuffers(dataset.fields, batch_size, prefetch + threads, self._allocate)
        self._sending: deque[tuple[torch.cuda.Event, Batch]] = deque()
        self._delivered = (self.sampler.epoch, self.sampler.state_dict()["consumed"])

    def __repr__(self) -> str:
        clips = f"{self.batch_size} of {len(self.dataset):,} clips"
        return (
            f"ClipLoader: {len(self):,} batches of {clips} for {self.device}, {self.threads} threads; {self.sampler!r}"
        )

    def __len__(self) -> int:
        """Batches of an epoch."""
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """The epoch's batches; the first time after :meth:`load_state_dict`, the rest of them.

        Raises:
            StoreError: the store does not have a clip's rows, or no longer.
        """
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="clips")
        pending: deque[tuple[Future[Batch], int]] = deque()
        try:
            for indices, consumed in self._batches():
                pending.append((pool.submit(self._read, indices), consumed))
                if len(pending) > self.prefetch:
                    yield self._deliver(*pending.popleft())
            while pending:
                yield self._deliver(*pending.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def set_epoch(self, epoch: int) -> None:
        """See :meth:`ClipSampler.set_epoch`."""
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The progress of the epoch: counts the batches that were handed out, not those that were read ahead."""
        epoch, consumed = self._delivered
        state = self.sampler.state_dict(consumed if epoch == self.sampler.epoch else None)
        return {**state, "clips": self.dataset.digest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the batch after the last one that was handed out when ``state`` was taken.

        Raises:
            ValueError: it was taken with other clips or another order.
        """
        if state["clips"] != self.dataset.digest:
            raise ValueError(
                f"the state was taken with other clips than these {len(self.dataset)}: the filter, the inputs or the "
                "clip index changed; open the dataset as it was, or begin the epoch anew"
            )
        self.sampler.load_state_dict(state)
        self._delivered = (state["epoch"], state["consumed"])

    def _batches(self) -> Iterator[tuple[list[int], int]]:
        """The clips of each batch, and how many clips the sampler has given out including them."""
        order = iter(self.sampler)
        while indices := list(islice(order, self.batch_size)):
            if len(indices) < self.batch_size and self.drop_last:
                return
            yield indices, self.sampler.state_dict()["consumed"]

    def _read(self, indices: list[int]) -> Batch:
        return self.dataset.read(indices, out=self._buffers.take(len(indices)))

    def _deliver(self, batch: Future[Batch], consumed: int) -> dict[str, torch.Tensor]:
        arrays = batch.result()
        tensors = {name: self._torch.from_numpy(values) for name, values in arrays.items()}
        if self.device.type == "cuda":
            tensors = self._send(tensors, arrays)
        elif self.device.type != "cpu":
            tensors = {name: tensor.to(self.device) for name, tensor in tensors.items()}
        self._delivered = (self.sampler.epoch, consumed)
        return tensors

    def _send(self, tensors: dict[str, torch.Tensor], arrays: Batch) -> dict[str, torch.Tensor]:
        """Begin copying to the device; the arrays are kept until the device has read them."""
        sent = {name: tensor.to(self.device, non_blocking=True) for name, tensor in tensors.items()}
        event = self._torch.cuda.Event()
        event.record(self._torch.cuda.current_stream(self.device))
        self._sending.append((event, arrays))
        while self._sending and self._sending[0][0].query():
            self._sending.popleft()
        return sent

    def _allocate(self, nbytes: int) -> np.ndarray:
        memory = self._torch.empty(nbytes, dtype=self._torch.uint8, pin_memory=self.device.type == "cuda")
        return memory.numpy()


def _import_torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"ClipLoader needs PyTorch: {install_line('loader')}") from error
    return torch
