"""What the models share: what they are given of a batch, and small layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

ORDER = ("v", "a", "t")
"""The modalities in the order in which their names are written."""


@dataclass(frozen=True)
class Sequences:
    """What a model is given of n windows of T steps, by modality.

    Attributes:
        values: (n, T, width) float32: z-scores, 0 wherever there is no value.
        masks: (n, T) bool: whether the step has any value of the modality.
        lengths: (n,) int64 on the processor, of modalities whose windows have more or fewer steps: how many, 0 among
            them. What is behind them is padding.
        traits: (n, traits) float32, z-scores of each window's participant; None unless personality is asked for.
    """

    values: dict[str, Tensor]
    masks: dict[str, Tensor]
    lengths: dict[str, Tensor] = field(default_factory=dict)
    traits: Tensor | None = None


class Lstm(nn.Module):
    """An LSTM over (n, T, width) that gives the last state of its top layer, (n, hidden).

    ``onednn`` False has it computed without oneDNN on a processor, which may be several times faster to train.
    """

    def __init__(self, width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, dropout=dropout)
        self.onednn = True

    def forward(self, values: Tensor, lengths: Tensor | None = None) -> Tensor:
        """With ``lengths``, (n,) on the processor, the state after so many steps: 0 after none."""
        with nullcontext() if self.onednn else without_onednn():
            if lengths is None:
                _, (last, _) = self.lstm(values)
                return last[-1]
            some = lengths.clamp(min=1)
            _, (last, _) = self.lstm(pack_padded_sequence(values, some, batch_first=True, enforce_sorted=False))
        return last[-1] * (lengths > 0).to(last)[:, None]


def only_present(encoded: Tensor, mask: Tensor) -> Tensor:
    """What was made of a modality, (n, width), and 0 for windows without any value of it, by its mask (n, T)."""
    return encoded * mask.any(dim=1, keepdim=True).to(encoded)


@contextmanager
def without_onednn() -> Iterator[None]:
    """Nothing is computed with oneDNN in this process meanwhile."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def use_onednn(model: nn.Module, use: bool) -> None:
    """Whether the LSTMs of a model are computed with oneDNN."""
    for part in model.modules():
        if isinstance(part, Lstm):
            part.onednn = use


def mlp(width: int, layers: Sequence[int], *, end: bool = False) -> nn.Sequential:
    """Linear layers with a ReLU between them, and after the last if ``end``."""
    parts: list[nn.Module] = []
    for wide in layers:
        parts += [nn.Linear(width, wide), nn.ReLU()]
        width = wide
    return nn.Sequential(*(parts if end else parts[:-1]))


def in_order(modalities: Sequence[str], order: str) -> list[str]:
    """Those of ``order`` (as "tav") that are there."""
    return [name for name in order if name in modalities]
