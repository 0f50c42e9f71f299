"""The orders in which training can see the clips.

A sampler's order follows from its settings and the epoch alone, so a job that resumes from a state_dict continues with
exactly the next clip. In distributed training the order is cut into ``world_size`` equal parts and rank r takes the
r-th; the remainder, fewer clips than ranks, is left out of that epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from storyframes.clips.dataset import ClipDataset


class ClipSampler(ABC):
    """An order of a dataset's clips for every epoch: for ClipLoader, or the ``sampler`` of torch's DataLoader.

    Iterating gives ints: places in the dataset. A sampler of your own defines ``order``; ``total`` where an epoch is
    not every clip once; and adds to ``settings`` whatever else its order follows from.

    Args:
        seed: samplers with one seed and one dataset give one order.
        rank: the part of the order that this process takes.

    Raises:
        ValueError: rank is not in [0, world_size).

    Example:
        >>> from storyframes import ClipDataset, ClipSampler
        >>> class Backwards(ClipSampler):
        ...     def order(self, generator):
        ...         return np.arange(self.total)[::-1]
        >>> dataset = ClipDataset("STORE", ["label"])
        >>> next(iter(Backwards(dataset))) == len(dataset) - 1
        True
        >>> halves = [Backwards(dataset, rank=rank, world_size=2) for rank in (0, 1)]  # of two processes
        >>> set(halves[0]) & set(halves[1])
        set()
    """

    def __init__(self, dataset: ClipDataset, *, seed: int = 0, rank: int = 0, world_size: int = 1) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank={rank} has to be at least 0 and below world_size={world_size}")
        self.dataset = dataset
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self._first = 0  # where the next iteration begins
        self._given = 0  # samples that this epoch's iteration gave out

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if name != "sampler")
        given = f"{self._given} of {len(self)} given"
        return f"{type(self).__name__}({settings}): rank {self.rank}, epoch {self.epoch}, {given}"

    @property
    def total(self) -> int:
        """Samples of an epoch, of all ranks and the remainder."""
        return len(self.dataset)

    @abstractmethod
    def order(self, generator: np.random.Generator) -> np.ndarray:
        """An epoch's samples as places in the dataset: (total,) integers, drawn with ``generator``."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the order follows from, besides the epoch and the clips."""
        return {"sampler": type(self).__name__, "seed": self.seed, "world_size": self.world_size, "total": self.total}

    def __len__(self) -> int:
        """Samples of an epoch for this rank, and for every other."""
        return self.total // self.world_size

    def __iter__(self) -> Iterator[int]:
        """The epoch's samples; the first time after :meth:`load_state_dict`, the rest of them."""
        self._given, self._first = self._first, 0
        order = self.order(np.random.default_rng([self.seed, self.epoch]))
        mine = order[self.rank * len(self) : (self.rank + 1) * len(self)]
        for index in mine[self._given :].tolist():
            self._given += 1
            yield index

    def set_epoch(self, epoch: int) -> None:
        """Give another epoch's order from now on. The current one's number changes nothing: a resumed epoch goes on."""
        if epoch != self.epoch:
            self.epoch = epoch
            self._first = self._given = 0

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """The progress of the epoch, for a checkpoint; the same on all ranks that are equally far.

        Args:
            consumed: how many of this rank's samples of the epoch training has seen. None takes the number that the
                sampler gave out, which is too large with a reader that reads ahead, as torch's DataLoader with workers.
        """
        return {**self.settings, "epoch": self.epoch, "consumed": self._given if consumed is None else consumed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where ``state`` was taken.

        Raises:
            ValueError: it was taken with another order.
        """
        for name, value in self.settings.items():
            if state.get(name) != value:
                raise ValueError(
                    f"the state was taken with {name}={state.get(name)!r}, this sampler has {name}={value!r}: it "
                    "cannot go on at the next sample of another order; make the sampler as it was, or begin the epoch "
                    "anew"
                )
        self.epoch = state["epoch"]
        self._first = self._given = state["consumed"]


class SequentialSampler(ClipSampler):
    """Every clip once, in the dataset's order: for evaluation, or to read whole sessions.

    Arguments and errors are those of :class:`ClipSampler`.

    Example:
        >>> from storyframes import ClipDataset, SequentialSampler
        >>> list(SequentialSampler(ClipDataset("STORE", ["label"])))[:4]
        [0, 1, 2, 3]
    """

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return np.arange(self.total)


class UniformSampler(ClipSampler):
    """Every clip once an epoch, in random order.

    Arguments and errors are those of :class:`ClipSampler`.

    Example:
        >>> from storyframes import ClipDataset, UniformSampler
        >>> sampler = UniformSampler(ClipDataset("STORE", ["label"]), seed=1)
        >>> first = list(sampler)
        >>> sorted(first) == list(range(len(sampler.dataset)))
        True
        >>> sampler.set_epoch(1)
        >>> list(sampler) == first
        False
    """

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return generator.permutation(self.total)


class SessionBlockSampler(ClipSampler):
    """Every clip once an epoch, in random order among a few blocks of neighbouring windows at a time.

    Sessions are cut into blocks of neighbouring windows, at a random offset in every epoch; ``blocks`` random ones are
    taken at once and all their windows permuted. Use it for cold disks and compressed stores: neighbours overlap in
    most of their frames, so a few long runs of rows are read, or decoded, instead of short ones all over the study. The
    price is that the clips of a batch come from fewer sessions. The clips of one window, one for each of its labels,
    follow one another, so that a window is read once for all of them, unless a batch or a rank's part ends between
    them.

    Args:
        block: windows in a block, however many labels each of them has.
        blocks: blocks whose windows are permuted together.
        seed, rank, world_size: see :class:`ClipSampler`.

    Raises:
        ValueError: block or blocks is less than 1, or rank is not in [0, world_size).

    Example:
        >>> from storyframes import ClipDataset, SessionBlockSampler
        >>> dataset = ClipDataset("STORE", ["label"])
        >>> order = list(SessionBlockSampler(dataset, block=6, blocks=2, seed=1))
        >>> sorted(order) == list(range(len(dataset)))  # each clip once
        True
        >>> sessions, frames = dataset.clips["session_id"], dataset.clips["start_frame"]
        >>> sessions[order[:12]].nunique() <= 2  # the first of them from two blocks
        True
        >>> frames[order[:3]].nunique()  # and the first three are one window's, with its three ratings
        1
    """

    def __init__(
        self,
        dataset: ClipDataset,
        *,
        block: int = 32,
        blocks: int = 16,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(dataset, seed=seed, rank=rank, world_size=world_size)
        if block < 1 or blocks < 1:
            raise ValueError(f"block={block} and blocks={blocks} have to be at least 1")
        self.block = block
        self.blocks = blocks

    @property
    def settings(self) -> dict[str, Any]:
        # "of": older states counted clips, and their order is another one.
        return {**super().settings, "block": self.block, "blocks": self.blocks, "of": "windows"}

    def order(self, generator: np.random.Generator) -> np.ndarray:
        clips = self.dataset.clips
        session, _ = pd.factorize(clips["session_id"])
        start = clips["start_frame"].to_numpy()
        opens = np.append(True, (session[1:] != session[:-1]) | (start[1:] != start[:-1]))  # the first clip of a window
        window = np.cumsum(opens) - 1
        session = session[opens]  # from here on windows are counted
        begins = np.append(True, session[1:] != session[:-1])
        run = np.cumsum(begins) - 1
        place_in_run = np.arange(len(session)) - np.flatnonzero(begins)[run]
        offset = generator.integers(self.block, size=run[-1] + 1)
        block_in_run = (place_in_run + offset[run]) // self.block
        block = np.cumsum(begins | np.append(True, block_in_run[1:] != block_in_run[:-1])) - 1
        turn = generator.permutation(block[-1] + 1) // self.blocks
        rank = np.empty(len(session), int)
        rank[np.lexsort((generator.random(len(session)), turn[block]))] = np.arange(len(session))
        return np.argsort(rank[window], kind="stable")
