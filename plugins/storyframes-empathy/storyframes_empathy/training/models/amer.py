"""AMER: encoders of each frame, and attention of the middle frame to all others (Shen et al., MEmoR, 2020)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from storyframes_empathy.training.models.parts import Sequences, in_order, mlp, only_present
from storyframes_empathy.training.models.sizes import AmerSizes

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
        skips_missing: whether a modality of which a window has no value adds nothing to what is made of the window.
        traits: of personality, whose encoding stands beside that of each modality at every moment, and once more in
            the fusion; 0 for none.
    """

    def __init__(
        self, widths: Mapping[str, int], out: int, sizes: AmerSizes, traits: int = 0, *, skips_missing: bool = False
    ) -> None:
        super().__init__()
        layers = {"v": sizes.encoder_v, "a": sizes.encoder_a, "t": sizes.encoder_t}
        self.order = in_order(list(widths), "vat")
        self.skips_missing = skips_missing
        self.encoders = nn.ModuleDict({name: mlp(widths[name], layers[name]) for name in self.order})
        self.personality = mlp(traits, sizes.encoder_p) if traits else None
        beside = sizes.encoder_p[-1] if traits else 0
        joined = sum(layers[name][-1] + beside for name in self.order) + beside
        # Two linear layers without anything between them, as its authors have it.
        self.head = nn.Sequential(
            nn.Linear(joined, sizes.fused),
            nn.Linear(sizes.fused, sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, out),
        )

    def forward(self, given: Sequences) -> Tensor:
        """(n, out) of n windows."""
        moments = {name: self.encoders[name](given.values[name]) for name in self.order}
        encoded = []
        if self.personality is not None:
            encoded = [self.personality(given.traits)]
            for name, each in moments.items():
                everywhere = encoded[0][:, None, :].expand(-1, each.shape[1], -1)
                moments[name] = torch.cat([each, everywhere], dim=2)
        looked_at = [attended(2 * moments[name], given.masks[name]) for name in self.order]
        if self.skips_missing:
            looked_at = [
                only_present(each, given.masks[name]) for name, each in zip(self.order, looked_at, strict=True)
            ]
        return self.head(torch.cat([*looked_at, *encoded], dim=1))


def attended(moments: Tensor, mask: Tensor) -> Tensor:
    """What the middle moment sees of all of them, and itself: (n, width) of (n, T, width) and a mask (n, T).

    Scaled dot products without weights; moments whose mask is False are not looked at; where all are, all are alike.
    """
    target = moments[:, moments.shape[1] // 2]
    logits = (moments @ target[:, :, None])[:, :, 0] / moments.shape[2] ** 0.5
    logits = torch.where(mask, logits, torch.full_like(logits, NOWHERE))
    return (torch.softmax(logits, dim=1)[:, None, :] @ moments)[:, 0] + target
