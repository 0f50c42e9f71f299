"""Rows of frames or of sound as a row for each word or utterance of a clip (:mod:`storyframes.pooling`).

A clip has the same words, in the same order, as an input of words has: those that start in it. Each is pooled over its
whole time, also where it ends after the clip. Utterances are those that overlap the clip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from storyframes.array_roles import MaskRule
from storyframes.clips.inputs import Clip, ClipInput, ClipSource
from storyframes.clips.readers import Batch, FeatureReader, Field, FieldPart
from storyframes.clips.row_finders import RowFinder, RowsOfSpeakers, SpokenInClip, find_speakers
from storyframes.pooling import POOLED_OVER, pool, pooled_spec, pools
from storyframes.spec import Axis, FeatureSpec, feature_and_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.session_times import SessionTimes


def pooling_needs(store: FeatureStore, requested: ClipInput, feature: str) -> tuple[str, ...]:
    """The feature of words that a session needs beside the pooled one; empty where none is pooled.

    Raises:
        ValueError: no session has the words.
    """
    assert requested.axis is not None
    having = next((session for session in store.sessions if store.has(session, feature)), None)
    if having is None or not pools(store.spec(having, feature)):
        return ()
    name = requested.aligned_to or POOLED_OVER[requested.axis]
    if not any(store.has(session, name) for session in store.sessions):
        raise ValueError(
            f"no session has the feature {name!r}, over whose {requested.axis}s {requested.field!r} would be pooled: "
            "name another with aligned_to="
        )
    return (name,)


@dataclass(frozen=True)
class PooledRows(FeatureReader):
    """The rows of a clip's words, padded; with ``<name>_length``.

    Attributes:
        spoken: finds the words.
        functionals: what is computed of each column.
        spans: by session, of each word the first of the feature's rows and the one after the last, (words, 2).
    """

    mask: MaskRule
    spoken: RowFinder
    functionals: tuple[str, ...]
    spans: Mapping[str, np.ndarray]
    pads: ClassVar[bool] = True

    @property
    def fields(self) -> dict[str, Field]:
        return super().fields | {f"{self.name}_length": Field((), np.dtype(np.int64))}

    def read_rows(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        spans = self.spans[clip.session_id][self.spoken.find(store, clip)[0]]
        count = len(spans)
        first, stop = _from_to(spans)

        def take(array: str) -> np.ndarray:
            return store.view(clip.session_id, self.feature, first, stop, array=array)

        measured = np.array(np.broadcast_to(self.mask.of(take), stop - first))
        for part in self.parts:
            rows = take(part.array)
            if part.columns:
                rows = np.concatenate([rows[..., piece] for piece in part.columns], axis=-1)
            target = batch[part.name][place]
            target[:count] = pool(rows, measured, spans - first, self.functionals)
            target[count:] = 0
        mask = batch[f"{self.name}_mask"][place]
        mask[count:] = False
        before = np.append(0, np.cumsum(measured))
        mask[:count] = before[spans[:, 1] - first] > before[spans[:, 0] - first]
        batch[f"{self.name}_length"][place] = count

    def will_need_rows(self, store: FeatureStore, clip: Clip) -> None:
        first, stop = _from_to(self.spans[clip.session_id][self.spoken.find(store, clip)[0]])
        for part in self.parts:
            store.will_need(clip.session_id, part.feature, first, stop, array=part.array)


def _from_to(spans: np.ndarray) -> tuple[int, int]:
    """The first of all rows and the one after the last."""
    return (int(spans[:, 0].min()), int(spans[:, 1].max())) if len(spans) else (0, 0)


def open_pooled(
    source: ClipSource,
    requested: ClipInput,
    feature: str,
    parts: tuple[FieldPart, ...],
    spec: FeatureSpec,
    mask: MaskRule,
) -> PooledRows:
    """The reader of a feature's frames or steps of sound over words or utterances.

    Args:
        parts: its fields, as rows of the feature fill them.

    Raises:
        ValueError: words or rows have no times, or no speaker is as asked.
        StoreError: frames have no times, or more or fewer than there are.
    """
    assert requested.axis is not None
    words = requested.aligned_to or POOLED_OVER[requested.axis]
    words_spec = source.store.spec(source.sessions[0], words)
    times = {name for name, array in words_spec.arrays.items() if array.axis is requested.axis}
    if not {"start", "end"} <= times:
        raise ValueError(f"{words!r} has no row for each {requested.axis} with its start and end: name another feature")
    if not parts:
        raise ValueError(f"{feature!r} has only whole numbers, of which there is no mean: it cannot be pooled")
    axis = spec.arrays[parts[0].array].axis
    spans = {
        session: SessionTimes(source.store, session, source.clocks).rows_during(feature, axis, words, requested.axis)
        for session in source.sessions
    }
    spoken = SpokenInClip(words, requested.axis is Axis.UTTERANCE, source.clock(feature_and_track(words)[1]))
    finder: RowFinder = spoken
    if requested.speakers is not None:
        finder = RowsOfSpeakers(spoken, find_speakers(source, requested, words, words_spec, requested.axis))
    functionals = tuple(requested.functionals)
    pooled = []
    for part in parts:
        array = replace(spec.arrays[part.array], shape=part.field.shape, columns=part.field.columns)
        made = pooled_spec(array, requested.axis, functionals)
        pooled.append(replace(part, field=Field(made.shape, np.dtype(made.dtype), made.columns), fill=made.fill))
    longest = finder.longest(source.store, source.index)
    return PooledRows(requested.field, feature, tuple(pooled), longest, mask, finder, functionals, spans)
