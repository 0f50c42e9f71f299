"""AMER: encoders of each frame, and attention of the middle frame to all others (Shen et al., MEmoR, 2020)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tasks.empathy.models.parts import Sequences, in_order, mlp
from tasks.empathy.models.sizes import AmerSizes

NOWHERE = -1e9
"""Added to the logits of frames without a value: no attention, unless there is no other frame."""


class Amer(nn.Module):
    """Its moments are the frames of a window, its target the middle one, its characters one person.

    Among persons attention gives one person back unchanged, and with the residual that is twice what went in: the
    factor is kept. Attention among moments has no weights of its own.

    Args:
        widths: columns of each modality; those named are used.
        out: values of the result.
        sizes: see there.
    """

    def __init__(self, widths: Mapping[str, int], out: int, sizes: AmerSizes) -> None:
        super().__init__()
        layers = {"v": sizes.encoder_v, "a": sizes.encoder_a, "t": sizes.encoder_t}
        self.order = in_order(list(widths), "vat")
        self.encoders = nn.ModuleDict({name: mlp(widths[name], layers[name]) for name in self.order})
        joined = sum(layers[name][-1] for name in self.order)
        # Two linear layers without anything between them, as its authors have it.
        self.head = nn.Sequential(
            nn.Linear(joined, sizes.fused),
            nn.Linear(sizes.fused, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, out),
        )

    def forward(self, given: Sequences) -> Tensor:
        """(n, out) of n windows."""
        looked_at = [attended(2 * self.encoders[name](given.values[name]), given.masks[name]) for name in self.order]
        return self.head(torch.cat(looked_at, dim=1))


def attended(moments: Tensor, mask: Tensor) -> Tensor:
    """What the middle moment sees of all of them, and itself: (n, width) of (n, T, width) and a mask (n, T).

    Scaled dot products without weights; moments whose mask is False are not looked at; where all are, all are alike.
    """
    target = moments[:, moments.shape[1] // 2]
    logits = (moments @ target[:, :, None])[:, :, 0] / moments.shape[2] ** 0.5
    logits = torch.where(mask, logits, torch.full_like(logits, NOWHERE))
    return (torch.softmax(logits, dim=1)[:, None, :] @ moments)[:, 0] + target
