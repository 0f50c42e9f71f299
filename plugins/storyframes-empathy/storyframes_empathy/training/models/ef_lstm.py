"""EF-LSTM: the modalities side by side, frame by frame, through one LSTM (early fusion)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from storyframes_empathy.training.models.parts import Lstm, Sequences, in_order
from storyframes_empathy.training.models.sizes import EfLstmSizes


class EfLstm(nn.Module):
    """As in MMSA; but its normalisation over time steps, for which z-scores stand here, has to be asked for.

    Args:
        widths: columns of each modality; those named are used.
        out: values of the result.
        sizes: see there.
        steps: of a window; only ``time_norm`` needs to know, which has a mean, an s.d. and two weights for each.
    """

    def __init__(self, widths: Mapping[str, int], out: int, sizes: EfLstmSizes, steps: int = 0) -> None:
        super().__init__()
        self.order = in_order(list(widths), "tav")
        self.norm = nn.BatchNorm1d(steps) if sizes.time_norm else None
        inner = sizes.dropout if sizes.layers > 1 else 0.0  # between layers
        self.lstm = Lstm(sum(widths.values()), sizes.hidden, sizes.layers, inner)
        self.head = nn.Sequential(
            nn.Dropout(sizes.dropout),
            nn.Linear(sizes.hidden, sizes.hidden),
            nn.ReLU(),
            nn.Dropout(sizes.dropout),
            nn.Linear(sizes.hidden, out),
        )

    def forward(self, given: Sequences) -> Tensor:
        """(n, out) of n windows."""
        side_by_side = torch.cat([given.values[name] for name in self.order], dim=2)
        return self.head(self.lstm(side_by_side if self.norm is None else self.norm(side_by_side)))
