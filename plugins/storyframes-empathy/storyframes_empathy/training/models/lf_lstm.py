"""LF-LSTM: an LSTM for each modality, joined at their last states (late fusion)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from storyframes_empathy.training.models.parts import Lstm, Sequences, in_order, only_present
from storyframes_empathy.training.models.sizes import LfLstmSizes


class LfLstm(nn.Module):
    """MMSA has no such model: this is the form of its LF-DNN over what the paper says, three LSTMs' last states.

    Args:
        widths: columns of each modality; those named are used.
        out: values of the result.
        sizes: see there.
        skips_missing: whether a modality of which a window has no value adds nothing to what is made of the window.
    """

    def __init__(self, widths: Mapping[str, int], out: int, sizes: LfLstmSizes, *, skips_missing: bool = False) -> None:
        super().__init__()
        hidden = {"v": sizes.hidden_v, "a": sizes.hidden_a, "t": sizes.hidden_t}
        self.order = in_order(list(widths), "tav")
        self.skips_missing = skips_missing
        self.lstms = nn.ModuleDict({name: Lstm(widths[name], hidden[name]) for name in self.order})
        self.head = nn.Sequential(
            nn.Dropout(sizes.dropout),
            nn.Linear(sum(hidden[name] for name in self.order), sizes.fused),
            nn.ReLU(),
            nn.Linear(sizes.fused, sizes.fused),
            nn.ReLU(),
            nn.Linear(sizes.fused, out),
        )

    def forward(self, given: Sequences) -> Tensor:
        """(n, out) of n windows."""
        last = [self.lstms[name](given.values[name], given.lengths.get(name)) for name in self.order]
        if self.skips_missing:
            last = [only_present(state, given.masks[name]) for name, state in zip(self.order, last, strict=True)]
        return self.head(torch.cat(last, dim=1))
