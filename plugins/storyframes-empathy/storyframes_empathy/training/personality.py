"""What participants said of themselves in surveys, as AMER's personality input: opt-in, from the study, never stored.

Scores are of any scale, so each trait is z-scored by the training participants, each of whom counts once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from storyframes import ClipDataset, ClipSampler
from storyframes_empathy.training.feed import Feed
from storyframes_empathy.training.inputs import MOST
from storyframes_empathy.training.models.parts import Sequences
from storyframes_empathy.training.moments import Moments
from storyframes_empathy.training.settings import PersonalitySettings
from tasks.study import StudyError, load_study


@dataclass(frozen=True)
class Personality:
    """The traits of the participants of a run.

    Attributes:
        scales: the traits.
        z: by participant, (traits,) float32; 0, the mean of training participants, where there is no score.
        lacking: how many participants have no score, by trait; only traits of which some have none.
        digest: SHA-256 of who has which score.
    """

    scales: tuple[str, ...]
    z: Mapping[str, np.ndarray]
    lacking: Mapping[str, int]
    digest: str

    @property
    def caveats(self) -> tuple[str, ...]:
        """What users of the numbers must know."""
        return tuple(
            f"personality: {count} of {len(self.z)} participants have no {scale}: the mean of training stands for it"
            for scale, count in self.lacking.items()
        )


def read_personality(asked: PersonalitySettings, training: Collection[str], everybody: Collection[str]) -> Personality:
    """The traits of participants.

    Args:
        asked: which, and of which study.
        training: the participants that are trained with.
        everybody: these, and those that are scored.

    Raises:
        ValueError: the study cannot be read, has no such surveys, or somebody has no score and that is refused.
    """
    scores = _scores(asked)
    people = sorted(everybody)
    table = np.array([[scores[scale].get(who, np.nan) for scale in asked.scales] for who in people])
    lacking = {scale: int(np.isnan(table[:, column]).sum()) for column, scale in enumerate(asked.scales)}
    lacking = {scale: count for scale, count in lacking.items() if count}
    if lacking and asked.missing == "refuse":
        without = [who for who, row in zip(people, table, strict=True) if np.isnan(row).any()]
        shown = ", ".join(without[:3]) + (", …" if len(without) > 3 else "")
        raise ValueError(
            f"{len(without)} of {len(people)} participants ({shown}) have no score {asked.timepoint} of "
            f'{", ".join(lacking)} in the surveys of {asked.study}: [train.personality] missing = "mean" has the mean '
            "of training participants stand for it, where= leaves clips out"
        )
    rows = table[np.isin(people, sorted(training))]
    if nobody := [scale for column, scale in enumerate(asked.scales) if np.isnan(rows[:, column]).all()]:
        raise ValueError(f"no participant that is trained with has a score {asked.timepoint} of {nobody[0]!r}")
    moments = Moments.of(rows, ~np.isnan(rows))
    z = np.nan_to_num(((table - moments.mean) / moments.std).clip(-MOST, MOST)).astype(np.float32)
    told = [[who, *map(str, row)] for who, row in zip(people, table.tolist(), strict=True)]
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return Personality(asked.scales, dict(zip(people, z, strict=True)), lacking, digest)


def _scores(asked: PersonalitySettings) -> dict[str, dict[str, float]]:
    """By scale and participant."""
    try:
        surveys = load_study(Path(asked.study)).surveys
    except StudyError as error:
        raise ValueError(f"personality: {error}") from None
    if not surveys:
        raise ValueError(f"the study {asked.study} has no surveys, so nobody's personality is known")
    taken = [row for row in surveys if row.timepoint == asked.timepoint]
    if not taken:
        times = ", ".join(dict.fromkeys(row.timepoint for row in surveys))
        raise ValueError(f"the surveys of {asked.study} have no timepoint {asked.timepoint!r}; they have {times}")
    found: dict[str, dict[str, float]] = {}
    for row in taken:
        found.setdefault(row.scale, {})[row.participant_id] = row.score
    if unknown := [scale for scale in asked.scales if scale not in found]:
        raise ValueError(
            f"the surveys of {asked.study} have no scale {unknown[0]!r} at {asked.timepoint!r}; they have "
            f"{', '.join(sorted(found))}: name them as scales in [train.personality]"
        )
    return found


class WithPersonality:
    """A feed that gives the model of every clip its participant's traits, too."""

    def __init__(self, feed: Feed, personality: Personality, device: torch.device | str = "cpu") -> None:
        self._feed, self._personality, self._device = feed, personality, device

    def batches(self, dataset: ClipDataset, sampler: ClipSampler, size: int) -> Iterator[tuple[Tensor, Sequences]]:
        traits = torch.from_numpy(np.stack([self._personality.z[who] for who in dataset.clips["participant_id"]]))
        for places, given in self._feed.batches(dataset, sampler, size):
            yield places, replace(given, traits=traits[places.cpu()].to(self._device))
