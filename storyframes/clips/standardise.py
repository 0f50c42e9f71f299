"""Standardised inputs of clips: minus a median or mean, and divided by a standard deviation, column by column.

Of whom these are is ``standardise`` of a :class:`~storyframes.clips.inputs.ClipInput`: of the session, of all sessions
of its person, or of the training clips. They are of features alone; labels are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from storyframes.array_roles import MaskRule
from storyframes.clips.filters import lacking_clips
from storyframes.clips.inputs import PERSON, SESSION, TRAINING, Batch, Clip, ClipInput, ClipSource
from storyframes.clips.readers import CurveRows, FeatureReader, FieldPart, InputReader, PooledRows
from storyframes.spec import MAIN
from storyframes.store.feature_store import FeatureStore


@dataclass(frozen=True)
class Scale:
    """What is subtracted and divided by: of a row's shape, float64."""

    centre: np.ndarray
    spread: np.ndarray

    @staticmethod
    def of(centre: np.ndarray, spread: np.ndarray) -> Scale:
        """With a spread of 1 where there is none, and a centre of 0 where there is no value at all."""
        has_spread = np.isfinite(spread) & (spread > 0)
        return Scale(np.where(np.isfinite(centre), centre, 0.0), np.where(has_spread, spread, 1.0))

    @staticmethod
    def of_rows(rows: np.ndarray) -> Scale:
        """The median and the standard deviation of (n, …) rows, without NaN."""
        exact = rows.astype(np.float64)
        none = np.isnan(exact).all(axis=0)
        exact[:, none] = 0.0  # numpy warns of columns without a value
        return Scale.of(np.nanmedian(exact, axis=0), np.nanstd(exact, axis=0))


@dataclass(frozen=True)
class Standardiser:
    """Standardises the fields of one input in a batch.

    Attributes:
        reader: what fills the fields.
        mask: which of the feature's rows are measurements.
        sessions: by session, those whose rows decide; None takes ``fixed``.
        fixed: by field, the scale of all clips.
    """

    reader: FeatureReader
    mask: MaskRule
    sessions: Mapping[str, tuple[str, ...]] | None
    fixed: Mapping[str, Scale] = field(default_factory=dict)
    _scales: dict[tuple[object, ...], Scale] = field(default_factory=dict, init=False, repr=False)

    def apply(self, store: FeatureStore, clips: Sequence[Clip], batch: Batch, places: Iterable[int]) -> None:
        """Standardise the clips at ``places``, which the reader has filled; of padded rows those that are measured."""
        for clip, place in zip(clips, places, strict=True):
            if self.reader.has_feature is not None and not self.reader.has_feature[clip.row]:
                continue
            rows = batch[f"{self.reader.name}_mask"][place] if self.reader.pads else slice(None)
            for part in self.reader.parts:
                columns = slice(part.first, part.first + _width(part)) if part.field.shape else slice(None)
                target = batch[part.name][place]
                of_part = target[..., columns] if part.field.shape else target
                scale = self._scale(store, clip.session_id, part)
                of_part[rows] = (of_part[rows].astype(np.float64) - scale.centre) / scale.spread

    def _scale(self, store: FeatureStore, session_id: str, part: FieldPart) -> Scale:
        if self.sessions is None:
            fixed, columns = self.fixed[part.name], slice(part.first, part.first + _width(part))
            return Scale(fixed.centre[..., columns], fixed.spread[..., columns]) if part.field.shape else fixed
        sessions = self.sessions[session_id]
        key = (sessions, part.name, part.first)
        if key not in self._scales:
            self._scales[key] = Scale.of_rows(np.concatenate([self._rows(store, name, part) for name in sessions]))
        return self._scales[key]

    def _rows(self, store: FeatureStore, session_id: str, part: FieldPart) -> np.ndarray:
        """The measured rows of a session."""

        def take(array: str) -> np.ndarray:
            return store.view(session_id, self.reader.feature, array=array)

        rows = store.view(session_id, part.feature, array=part.array)
        if part.columns:
            rows = np.concatenate([rows[..., piece] for piece in part.columns], axis=-1)
        return rows[np.broadcast_to(self.mask.of(take), len(rows))]


def _width(part: FieldPart) -> int:
    return sum(piece.stop - piece.start for piece in part.columns) if part.columns else part.field.shape[-1]


def standardiser(
    requested: ClipInput,
    reader: InputReader,
    source: ClipSource,
    training: Callable[[], Mapping[str, Scale]],
) -> Standardiser:
    """What standardises the fields of an input.

    Args:
        source: what the readers were made from.
        training: the scales of the training clips, by field; called where they are asked for.

    Raises:
        ValueError: the input cannot be standardised so, or sessions that are read for it have other columns.
    """
    mask = getattr(reader, "mask", None)
    if not isinstance(reader, FeatureReader) or isinstance(reader, PooledRows | CurveRows) or mask is None:
        raise ValueError(
            f"{requested.field!r} cannot be standardised: only a feature's own rows and those of frames can"
        )
    if whole := [part.array for part in reader.parts if part.field.dtype.kind != "f"]:
        raise ValueError(f"{requested.field!r} cannot be standardised: {whole[0]!r} has whole numbers")
    if requested.standardise == TRAINING:
        return Standardiser(reader, mask, None, training())
    if requested.standardise == SESSION:
        return Standardiser(reader, mask, {session: (session,) for session in source.sessions})
    assert requested.standardise == PERSON
    if requested.track != MAIN:
        raise ValueError(
            f"{requested.field!r} cannot be standardised by person: the clip index does not say whom the track "
            f"{requested.track!r} shows; use standardise={SESSION!r}"
        )
    of_people = source.index[source.index["participant_id"].isin(source.clips["participant_id"])]
    having = of_people[~lacking_clips(of_people, source.store, requested)]
    pairs = having[["session_id", "participant_id"]].drop_duplicates()
    read = replace(source, sessions=pairs["session_id"].tolist())
    for feature in {part.feature for part in reader.parts if read.sessions}:  # columns are read by their places
        read.common_spec(feature, except_for=requested.unread)
    by_person = pairs.groupby("participant_id", sort=False)["session_id"].agg(tuple)
    return Standardiser(reader, mask, {session: group for group in by_person for session in group})


def training_scales(
    windows: Iterable[Mapping[str, np.ndarray]], fields: Collection[str], mask: str
) -> dict[str, Scale]:
    """The mean and the standard deviation of each field over windows.

    Args:
        windows: of each the fields, without a dimension of clips.
        fields: those with values.
        mask: the field that says which of their rows are measurements.

    Raises:
        ValueError: there are no windows.
    """
    count: dict[str, np.ndarray] = {}
    sums: dict[str, np.ndarray] = {}
    squares: dict[str, np.ndarray] = {}
    for window in windows:
        for name in fields:
            rows = window[name][window[mask]].astype(np.float64)
            has_value = np.isfinite(rows)
            rows = np.where(has_value, rows, 0.0)
            for total, added in ((count, has_value), (sums, rows), (squares, rows * rows)):
                total[name] = total.get(name, 0) + added.sum(axis=0)
    if not count:
        raise ValueError("standardise='training' needs clips of the split 'train', and there are none")
    scales = {}
    for name, number in count.items():
        number = np.maximum(number, 1)
        mean = sums[name] / number
        scales[name] = Scale.of(mean, np.sqrt(np.maximum(squares[name] / number - mean * mean, 0.0)))
    return scales
