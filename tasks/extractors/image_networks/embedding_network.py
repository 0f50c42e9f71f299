"""A torch module from pictures as bytes to rows of numbers: normalisation, then somebody's model."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class EmbeddingNetwork(torch.nn.Module):
    """(n, height, width, 3) uint8 RGB images in, (n, …) rows out.

    Args:
        pooled: from normalised images, (n, 3, height, width), to rows; may be in any precision.
        mean, std: of each channel, for values that are ``1 / scale`` of the bytes.
        scale: 255 where the model wants 0..1.
        foldable: whether torch can read the graph of ``pooled``, so that its batch normalisations are folded into the
            convolutions before them.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        pooled: torch.nn.Module,
        mean: Sequence[float],
        std: Sequence[float],
        scale: float = 255.0,
        *,
        foldable: bool = False,
    ) -> None:
        super().__init__()
        self.pooled = pooled
        self.foldable = foldable
        self.register_buffer("mean", scale * torch.tensor(mean)[:, None, None])
        self.register_buffer("std", scale * torch.tensor(std)[:, None, None])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        normalised = (images.permute(0, 3, 1, 2) - self.mean) / self.std
        return self.pooled(normalised.to(next(self.pooled.parameters()).dtype))
