"""What a model is given of a batch of clips: z-scores of its modalities, 0 wherever there is no value.

The order matters: z-score, cut at eight standard deviations, and only then 0 where a mask is False or a value is not
finite. Before the z-score a 0 would be a value like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from storyframes import ClipDataset
from storyframes.clips import Field
from storyframes_empathy.training.models.parts import Sequences
from storyframes_empathy.training.moments import Moments
from storyframes_empathy.training.settings import TrainSettings

MOST = 8.0
"""Standard deviations; what is further from the mean is cut to it."""


@dataclass(frozen=True)
class Part:
    """A part of a modality: an input, and the fields that a batch has of it.

    Attributes:
        name: of the input.
        fields: those with values, (n, T, …) each.
        mask: the field (n, T) that says which rows are values.
        width: columns of all fields together.
        length: the field (n,) that says how many rows each clip has; empty where all have T.
    """

    name: str
    fields: tuple[str, ...]
    mask: str
    width: int
    length: str = ""


def parts_of(settings: TrainSettings, modalities: Sequence[str], fields: Mapping[str, Field]) -> dict[str, list[Part]]:
    """The parts of each modality, in the order of the settings.

    Args:
        settings: says which inputs they are.
        modalities: those that are used.
        fields: of a dataset that has them all.

    Raises:
        ValueError: an input has rows that are not numbers, or others than those that it is joined with.
    """
    names = [part.input for name in modalities for part in settings.parts(name)]
    owner = {}
    for field in fields:
        owners = [name for name in names if field == name or field.startswith(f"{name}_")]
        owner[field] = max(owners, key=len, default="")
    found = {
        name: [
            _part(part.input, [field for field in fields if owner[field] == part.input], fields)
            for part in settings.parts(name)
        ]
        for name in modalities
    }
    for name, parts in found.items():
        steps = [fields[part.mask].shape[0] for part in parts]
        if len(set(steps)) > 1:
            raise ValueError(
                f"the inputs of {name} are joined row by row, and {parts[0].name!r} has {steps[0]} of a clip, others "
                f"have {max(steps)} or {min(steps)}: give them one rate"
            )
    return found


def _part(name: str, own: Sequence[str], fields: Mapping[str, Field]) -> Part:
    mask, length = f"{name}_mask", f"{name}_length"
    values = tuple(field for field in own if field not in (mask, length))
    for field in values:
        if fields[field].dtype.kind not in "fiu" or not fields[field].shape:
            raise ValueError(f"the input {name!r} cannot be given to a model: {field} has no numbers for each frame")
    width = sum(math.prod(fields[field].shape[1:]) for field in values)
    return Part(name, values, mask, width, length if length in fields else "")


def rows_of(batch: Mapping[str, np.ndarray], part: Part) -> tuple[np.ndarray, np.ndarray]:
    """The values of a part, (n, T, width), and which of them count, alike: the row's mask, and finite."""
    mask = batch[part.mask]
    values = np.concatenate([batch[field].reshape(*mask.shape, -1) for field in part.fields], axis=2)
    return values, mask[..., None] & np.isfinite(values)


class Preparation:
    """Makes of a batch what a model is given.

    Args:
        parts: of each modality that is used.
        moments: of each part, by its name.
        device: where batches are, and stay.
        onto: of modalities that are projected, (columns, fewer) float64: what each row is multiplied by at last.
    """

    def __init__(
        self,
        parts: Mapping[str, Sequence[Part]],
        moments: Mapping[str, Moments],
        device: torch.device | str = "cpu",
        onto: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.parts = parts
        self._onto = {name: torch.from_numpy(each).float().to(device) for name, each in (onto or {}).items()}
        self._mean = {
            name: self._joined([moments[part.name].mean for part in own], device) for name, own in parts.items()
        }
        self._std = {
            name: self._joined([moments[part.name].std for part in own], device) for name, own in parts.items()
        }

    @property
    def widths(self) -> dict[str, int]:
        """The columns of each modality, as a model sees them."""
        wide = {name: sum(part.width for part in own) for name, own in self.parts.items()}
        return wide | {name: each.shape[1] for name, each in self._onto.items()}

    def __call__(self, batch: Mapping[str, Tensor]) -> Sequences:
        values, masks, lengths = {}, {}, {}
        for name, own in self.parts.items():
            values[name], masks[name] = self._modality(name, own, batch)
            if own[0].length:  # nobody looks at what is behind the longest of the batch
                lengths[name] = batch[own[0].length].cpu()
                most = max(1, int(lengths[name].max()))
                values[name], masks[name] = values[name][:, :most], masks[name][:, :most]
            if name in self._onto:
                with torch.autocast(values[name].device.type, enabled=False):  # in training as in scoring
                    values[name] = values[name] @ self._onto[name]
        return Sequences(values, masks, lengths)

    def _modality(self, name: str, own: Sequence[Part], batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        flat = [
            batch[field].flatten(2) if batch[field].dim() > 2 else batch[field][..., None]
            for part in own
            for field in part.fields
        ]
        values = torch.cat([each.float() for each in flat], dim=2)
        lacking = ~torch.isfinite(values)
        first = 0
        for part in own:
            lacking[..., first : first + part.width] |= ~batch[part.mask][..., None]
            first += part.width
        values.sub_(self._mean[name]).div_(self._std[name]).clamp_(-MOST, MOST).masked_fill_(lacking, 0.0)
        return values, torch.stack([batch[part.mask] for part in own]).any(dim=0)

    @staticmethod
    def _joined(columns: Sequence[np.ndarray], device: torch.device | str) -> Tensor:
        return torch.from_numpy(np.concatenate(columns)).float().to(device)


def open_parts(dataset: ClipDataset, settings: TrainSettings, modalities: Sequence[str]) -> dict[str, list[Part]]:
    """:func:`parts_of` a dataset."""
    return parts_of(settings, modalities, dataset.fields)
