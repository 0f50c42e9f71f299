"""The inputs of a clip that have names of their own.

Any feature of the store is an input under its own name (:mod:`storyframes.clips.feature_input`). These names stand for
what a study is about:

| name | a clip's arrays | a row is |
|---|---|---|
| vision.measured | vision.measured (k, 2757) float32, vision.measured_mask: openface and resnet50 | a frame |
| vision | vision (k, 2762) float32, vision_mask: the same after openface's bookkeeping, the paper's | a frame |
| audio | audio (n, 65) float32, audio_mask, audio_length: opensmile | 10 ms from the clip's start; or a frame |
| words | words (n, 300) float32, words_mask, words_length: glove | a word; or a frame |
| sentence | sentence (n, 384) float32, sentence_mask, sentence_length: sbert | an utterance; or a frame |
| story | story (384,) float32: the story's sbert vector | the story |
| label | label () int64: the rating, 1 to 5; or of schemes: label_<scheme>, label_<scheme>_mask | the window |
| label.<scheme> | label.<scheme> (k) float32, label.<scheme>_mask: the scheme's curve at each frame | a frame |

k is the number of frames of a clip (or of points, with ``rate``), and n the largest number of rows of any clip of the
study; an input with a row for each frame has no length. Values are as stored, also where the mask is False: NaN, or the
stale landmarks of a lost face. A row whose mask is True may lack single columns, which are NaN: the F0 of sound that is
not voiced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd

from storyframes.array_roles import MaskRule, side_by_side
from storyframes.clips.clip_index import weight_column
from storyframes.clips.feature_input import open_feature
from storyframes.clips.grid import grid_of
from storyframes.clips.inputs import Batch, Clip, ClipInput, ClipSource, Field
from storyframes.clips.readers import FieldPart, FrameRows, InputReader
from storyframes.clips.row_finders import IndexedSound, refuse_speakers
from storyframes.features import CLOCK, MEASURED_VISION, STORIES, VISION
from storyframes.mistakes import unknown
from storyframes.pooling import POOLED_OVER, pools
from storyframes.spec import MAIN, MAIN_ARRAY, Axis, FeatureSpec, is_label_curve, of_scheme, of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.named.address import AddressError

RATING = "empathy"
"""The column of the clip index that ``label`` gives."""
STORY_FEATURE = "sbert"
"""The feature of the story texts that ``story`` gives."""
_FLOAT32 = np.dtype(np.float32)
_MEASURED = ("measurements", VISION[1])
"""The groups of the columns of ``vision`` that are measurements."""


@dataclass(frozen=True)
class StoryVector(InputReader):
    """The vector of the story that the clip's rating is about.

    Attributes:
        feature: of the story texts.
        rows: the row of each story in it.
    """

    name: str
    field: Field
    feature: str
    rows: Mapping[str, int]

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        row = self.rows[clip.story_id]
        store.read(STORIES, self.feature, row, row + 1, out=batch[self.name][place : place + 1])


@dataclass(frozen=True, eq=False)
class Labels(InputReader):
    """One value of each clip.

    Attributes:
        field: the field; a clip has a single number.
        values: (clips of the dataset,) of the field's dtype.
    """

    name: str
    field: Field
    values: np.ndarray

    @property
    def fields(self) -> dict[str, Field]:
        return {self.name: self.field}

    def read(self, store: FeatureStore, clip: Clip, batch: Batch, place: int) -> None:
        batch[self.name][place] = self.values[clip.row]


@dataclass(frozen=True)
class NamedInput:
    """An input with a name of its own.

    Attributes:
        features: the features that a session needs.
    """

    features: tuple[str, ...]
    readers: Callable[[ClipSource, ClipInput], list[InputReader]]


def needed_features(requested: ClipInput, store: FeatureStore) -> tuple[str, ...]:
    """The features that a session needs for an input, as the store calls them; none for labels and stories.

    Raises:
        ValueError: the name is neither an input's nor a feature's of any session; or no session has such a track, or
            the feature of it.
    """
    name, track = requested.feature, requested.track
    stored = store.features_of(track)
    if name in INPUTS:
        needed = INPUTS[name].features
        if track != MAIN and not needed:
            raise ValueError(f"{name!r} is one value a clip, which is of no track")
    elif track == MAIN and name not in stored:
        raise AddressError(unknown("", "input", name, [*INPUTS, *stored]))
    else:
        needed = (name,)
    if track != MAIN and not stored:
        tracks = ", ".join(map(repr, store.all_tracks))
        raise ValueError(f"no session has features of a track {track!r}; there are those of {tracks}")
    if track != MAIN and not set(needed) <= set(stored):
        lacking = next(feature for feature in needed if feature not in stored)
        raise ValueError(f"no session has {lacking!r} of the track {track!r}, which has {', '.join(stored)}")
    at_frames = (CLOCK,) if is_label_curve(name) and requested.rate is None else ()  # when the clip's frames are
    own = tuple(of_track(feature, track) for feature in needed)
    pooled_over = _pooled_over(store, requested, own[0]) if own and requested.axis in POOLED_OVER else ()
    return (*own, *pooled_over, *at_frames)


def _pooled_over(store: FeatureStore, requested: ClipInput, feature: str) -> tuple[str, ...]:
    """The feature of words that a session needs as well as the pooled one; empty where none is pooled.

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


def open_input(source: ClipSource, requested: ClipInput) -> list[InputReader]:
    """The readers of one input.

    Raises:
        ValueError: it has no such columns or rows, or its sessions have different columns.
    """
    if requested.feature not in INPUTS:
        return [open_feature(source, requested, requested.feature)]
    return INPUTS[requested.feature].readers(source, requested)


def _alias(feature: str, sound: IndexedSound | None = None) -> NamedInput:
    """A feature under another name."""

    def readers(source: ClipSource, requested: ClipInput) -> list[InputReader]:
        return [open_feature(source, requested, feature, sound if requested.track == MAIN else None)]

    return NamedInput((feature,), readers)


def _vision(source: ClipSource, requested: ClipInput) -> list[InputReader]:
    _check_axis(requested, Axis.FRAME)
    features = [of_track(feature, requested.track) for feature in VISION]
    measured = requested.feature == MEASURED_VISION
    specs = [source.common_spec(feature, groups=measured or requested.columns is not None) for feature in features]
    table = side_by_side(specs)
    chosen = table.choose(_MEASURED if measured and requested.columns is None else requested.columns)
    if measured and (odd := set(chosen.names) - set(table.choose(_MEASURED).names)):
        raise ValueError(f"{MEASURED_VISION!r} has no bookkeeping, as {min(odd)!r}: it is a column of 'vision'")
    if not measured and requested.columns is None:
        warnings.warn(
            "'vision' begins with five columns that a model should not see: frame number, face, time, confidence and "
            f"success. {MEASURED_VISION!r} has the 2757 others; ClipInput('vision', {list(VISION)!r}) takes them all "
            "without this warning",
            stacklevel=6,  # where the ClipDataset is made
        )
    grid = grid_of(source, requested, CLOCK)
    field = Field((len(chosen.names),), _FLOAT32, chosen.names)
    parts, first = [], 0
    for feature, columns in _by_feature(chosen.pieces, specs):
        name = of_track(feature, requested.track)
        parts.append(FieldPart(requested.field, field, name, MAIN_ARRAY, columns, first=first))
        first += sum(piece.stop - piece.start for piece in columns)
    tracked = MaskRule(specs[0].mask, (MAIN_ARRAY,), requested.min_confidence)
    rows = len(grid) if grid else source.frames
    return [FrameRows(requested.field, features[0], tuple(parts), rows, tracked, grid)]


def _by_feature(pieces: Sequence[slice], specs: Sequence[FeatureSpec]) -> list[tuple[str, tuple[slice, ...]]]:
    """Columns of vision as columns of its features, in the same order; neighbouring pieces of a feature together."""
    columns = []
    for piece in pieces:
        first = 0
        for spec in specs:
            width = len(spec.columns)
            start, stop = max(piece.start - first, 0), min(piece.stop - first, width)
            if start < stop:
                columns.append((spec.name, slice(start, stop)))
            first += width
    return [(name, tuple(own for _, own in group)) for name, group in groupby(columns, key=lambda pair: pair[0])]


def _story(source: ClipSource, requested: ClipInput) -> list[InputReader]:
    _check_axis(requested, Axis.STORY)
    if requested.columns is not None or requested.part:
        raise ValueError("columns of 'story' cannot be chosen")
    spec = source.store.spec(STORIES, STORY_FEATURE).arrays[MAIN_ARRAY]
    rows = {story_id: row for row, story_id in enumerate(source.store.story_ids(STORY_FEATURE))}
    return [StoryVector("story", Field(spec.shape, np.dtype(spec.dtype), spec.columns), STORY_FEATURE, rows)]


def _label(source: ClipSource, requested: ClipInput) -> list[InputReader]:
    _check_axis(requested, Axis.STORY)
    if requested.columns is not None:
        return [reader for scheme in requested.columns for reader in _scheme(source, scheme, weights=requested.weights)]
    values = source.clips[RATING].to_numpy(np.float64)
    if (values != np.rint(values)).any():
        raise ValueError(
            f"'label' is a whole number, and values of {RATING!r} are not: take ClipInput(\"label\", [{RATING!r}])"
        )
    weights = [_weights(source, RATING, "label")] if requested.weights else []
    return [Labels("label", Field((), np.dtype(np.int64)), values.astype(np.int64)), *weights]


def _weights(source: ClipSource, scheme: str, name: str) -> Labels:
    """The certainty of the raters for each clip: 1 where they give none, 0 where the clip has no value."""
    column = weight_column(scheme)
    if column in source.clips and column not in source.index.attrs.get("schemes", {}):
        values = source.clips[column].to_numpy(np.float32)
    else:
        values = source.clips[scheme].notna().to_numpy(np.float32)
    return Labels(f"{name}_weight", Field((), _FLOAT32), values)


def _scheme(source: ClipSource, scheme: str, *, weights: bool) -> list[InputReader]:
    """A scheme's values (numbers as float32, classes as int64 with -1 for none), and which clips have one."""
    schemes = [name for name in source.index.attrs.get("schemes", {}) if name in source.clips]
    if scheme not in schemes:
        curve = of_scheme(scheme)
        hint = f": it is a curve, ClipInput({curve!r})" if curve in source.store.all_features else ""
        raise ValueError(f"the clip index has no scheme {scheme!r}{hint}; it has {', '.join(schemes) or 'none'}")
    column = source.clips[scheme]
    if isinstance(column.dtype, pd.CategoricalDtype):
        names = tuple(str(name) for name in source.index[scheme].cat.categories)
        field, values = Field((), np.dtype(np.int64), names=names), column.cat.codes.to_numpy(np.int64)
    else:
        field, values = Field((), _FLOAT32), column.to_numpy(np.float32, na_value=np.nan)
    mask = column.notna().to_numpy(bool)
    name = f"label_{scheme}"
    certainty = [_weights(source, scheme, name)] if weights else []
    return [Labels(name, field, values), Labels(f"{name}_mask", Field((), np.dtype(bool)), mask), *certainty]


def _check_axis(requested: ClipInput, only: Axis) -> None:
    refuse_speakers(requested)
    if requested.rate is not None and only is not Axis.FRAME:
        raise ValueError(f"{requested.name!r} is one value a clip, which has no rate")
    if requested.axis not in (None, only):
        raise ValueError(f"axis of {requested.name!r} cannot be {str(requested.axis)!r}, only {str(only)!r}")


INPUTS: Mapping[str, NamedInput] = {
    MEASURED_VISION: NamedInput(VISION, _vision),
    "vision": NamedInput(VISION, _vision),
    "audio": _alias("opensmile", IndexedSound("opensmile")),
    "words": _alias("glove"),
    "sentence": _alias("sbert"),
    "story": NamedInput((), _story),
    "label": NamedInput((), _label),
}
"""The inputs with names of their own."""
