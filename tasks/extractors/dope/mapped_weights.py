"""A network's weights in a file without a name, so that they take memory only while somebody reads them.

OpenVINO rearranges weights for the processor and keeps what it was given as well, though it hardly looks at it again.
Given memory that is a file's, the pages can be let go of: should it read them after all, they come from the file.
"""

from __future__ import annotations

import mmap
import tempfile

import torch
from torch import nn


class MappedWeights:
    """Moves the parameters of networks into a file of their own, which is mapped; the networks stay usable.

    Args:
        networks: float32, on the processor.
    """

    def __init__(self, *networks: nn.Module) -> None:
        parameters = list({id(of): of for network in networks for of in network.parameters()}.values())
        with tempfile.TemporaryFile() as file:
            file.truncate(4 * sum(parameter.numel() for parameter in parameters))
            self._map = mmap.mmap(file.fileno(), 0)
        offset = 0
        for parameter in parameters:
            mapped = torch.frombuffer(self._map, dtype=torch.float32, count=parameter.numel(), offset=offset)
            # One by one, so that never all of them are there twice.
            parameter.data = mapped.view(parameter.shape).copy_(parameter.data)
            offset += 4 * parameter.numel()
            self.let_go()

    def let_go(self) -> None:
        """Of the memory: the file has it all."""
        self._map.madvise(mmap.MADV_DONTNEED)
