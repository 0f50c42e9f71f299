"""TFN: the outer product of what sub-networks make of the modalities (Zadeh et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from storyframes_empathy.training.models.parts import ORDER, Lstm, Sequences, mlp, only_present
from storyframes_empathy.training.models.sizes import TfnSizes


class Tfn(nn.Module):
    """As in MMSA, but that a modality which is not used is no factor of the product.

    v and a are the means of their valid frames: the order of frames does not matter to them.

    Args:
        widths: columns of each modality; those named are used.
        out: values of the result.
        sizes: see there.
        skips_missing: whether a modality of which a window has no value adds nothing to what is made of the window.
    """

    def __init__(self, widths: Mapping[str, int], out: int, sizes: TfnSizes, *, skips_missing: bool = False) -> None:
        super().__init__()
        self.order = [name for name in ORDER if name in widths]
        self.skips_missing = skips_missing
        self.padding_counts = sizes.padding_counts
        self.widths = wide = {"v": sizes.hidden_v, "a": sizes.hidden_a, "t": sizes.out_t}
        self.parts = nn.ModuleDict()
        product = 1
        for name in self.order:
            if name == "t":
                self.parts[name] = nn.Sequential(
                    Lstm(widths["t"], sizes.hidden_t), nn.Linear(sizes.hidden_t, wide["t"])
                )
            else:
                start = [nn.BatchNorm1d(widths[name]), nn.Dropout(sizes.dropout)]
                self.parts[name] = nn.Sequential(*start, mlp(widths[name], [wide[name]] * 3, end=True))
            product *= wide[name] + 1
        self.head = nn.Sequential(nn.Dropout(sizes.fused_dropout), mlp(product, [sizes.fused, sizes.fused, out]))

    def forward(self, given: Sequences) -> Tensor:
        """(n, out) of n windows."""
        product = None
        for name in self.order:
            part = self._part(name, given)
            part = torch.cat([torch.ones_like(part[:, :1]), part], dim=1)
            product = part if product is None else (product[:, :, None] * part[:, None, :]).flatten(1)
        return self.head(product)

    def _part(self, name: str, given: Sequences) -> Tensor:
        values, layers = given.values[name], cast("nn.Sequential", self.parts[name])
        mask = given.masks[name]
        if name == "t":
            encoded = layers[1](layers[0](values, given.lengths.get(name)))
            return only_present(encoded, mask) if self.skips_missing else encoded
        if not self.skips_missing:
            return layers(self._mean(values, mask))
        # Batch normalisation must not see the zeros of windows without a value, and needs two windows to learn from.
        present = mask.any(dim=1)
        encoded = values.new_zeros((len(values), self.widths[name]))
        if int(present.sum()) > int(self.training):
            encoded = encoded.index_put((present,), layers(self._mean(values[present], mask[present])).to(encoded))
        return encoded

    def _mean(self, values: Tensor, mask: Tensor) -> Tensor:
        if self.padding_counts:
            return values.mean(dim=1)
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        return (values * mask[..., None]).sum(dim=1) / count
