"""Words and utterances by who said them: the array ``speaker``, and the attribute ``speakers`` that it points into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from storyframes.array_roles import SPEAKER
from storyframes.clips.input_readers import Clip, RowFinder
from storyframes.clips.inputs import ClipInput, ClipSource
from storyframes.spec import Axis, FeatureSpec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError


@dataclass(frozen=True)
class Speakers:
    """Tells which rows of a feature are of certain speakers.

    Attributes:
        feature: the feature.
        numbers: by session, what ``speaker`` is in their rows.
    """

    feature: str
    numbers: Mapping[str, tuple[int, ...]]

    def have(self, store: FeatureStore, session_id: str, rows: np.ndarray) -> np.ndarray:
        """(n,) whether each of these rows is theirs."""
        if len(rows) == 0:
            return np.zeros(0, bool)
        first = int(rows.min())
        speaker = store.view(session_id, self.feature, first, int(rows.max()) + 1, array=SPEAKER)
        return np.isin(speaker[rows - first], self.numbers[session_id])


@dataclass(frozen=True)
class RowsOfSpeakers(RowFinder):
    """Of the rows that another finder finds, those of certain speakers. Padded as if all spoke."""

    finder: RowFinder
    speakers: Speakers

    def find(self, store: FeatureStore, clip: Clip) -> tuple[np.ndarray, int]:
        rows, _ = self.finder.find(store, clip)
        assert isinstance(rows, np.ndarray)  # words and utterances need not lie side by side
        return rows[self.speakers.have(store, clip.session_id, rows)], 0

    def longest(self, store: FeatureStore, index: pd.DataFrame) -> int:
        return self.finder.longest(store, index)


def find_speakers(
    source: ClipSource, wanted: ClipInput, feature: str, spec: FeatureSpec, axis: Axis
) -> Speakers | None:
    """The speakers that ``wanted`` names, in every session that is read; None where it names none.

    Args:
        source: what to read.
        wanted: the input.
        feature: its feature, as the store calls it.
        spec: of it.
        axis: what its rows stand for.

    Raises:
        ValueError: the feature does not tell speakers, or there is no such speaker, or a session in which somebody
            speaks has none of them.
        StoreError: a session says nothing of its speakers.
    """
    if wanted.speakers is None:
        return None
    if axis not in (Axis.WORD, Axis.UTTERANCE):
        refuse_speakers(wanted)
    if SPEAKER not in spec.arrays or spec.arrays[SPEAKER].axis is not axis:
        raise ValueError(
            f"speakers of {wanted.field!r} cannot be chosen: {feature!r} does not tell who said a row (it has no "
            f"array {SPEAKER!r} with a row for each {axis}); where an older version extracted it, extract it again"
        )
    there = {session: _named(source.store, session, feature) for session in source.sessions}
    known = list(dict.fromkeys(name for names in there.values() for name in names))
    if unknown := [name for name in wanted.speakers if name not in known]:
        raise ValueError(f"no session has a speaker {unknown[0]!r} in {feature!r}; there are {_listed(known)}")
    if lacking := [session for session, names in there.items() if names and not set(names) & set(wanted.speakers)]:
        others = list(dict.fromkeys(name for session in lacking for name in there[session]))
        raise ValueError(
            f"{len(lacking)} of {len(there)} sessions have speech, but none of {_listed(wanted.speakers)} "
            f"({', '.join(lacking[:3])}{', …' if len(lacking) > 3 else ''}: {_listed(others)}): name who is meant "
            "there as well, or leave these sessions out with where"
        )
    return Speakers(
        feature,
        {
            session: tuple(number for number, name in enumerate(names) if name in wanted.speakers)
            for session, names in there.items()
        },
    )


def refuse_speakers(wanted: ClipInput) -> None:
    """Say that an input's rows are nobody's.

    Raises:
        ValueError: it names speakers.
    """
    if wanted.speakers is not None:
        raise ValueError(f"speakers of {wanted.field!r} cannot be chosen: only words and utterances have one")


def _named(store: FeatureStore, session: str, feature: str) -> list[str]:
    names = store.attributes(session, feature).get("speakers")
    if not isinstance(names, list):
        raise StoreError(f"{session}/{feature} has no attribute 'speakers' that names them: extract it again")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
