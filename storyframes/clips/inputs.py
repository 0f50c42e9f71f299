"""The inputs of a clip by name, and the readers that fill them.

| name | a clip's arrays | a row is |
|---|---|---|
| vision | vision (k, 2762) float32, vision_mask | a frame |
| openface | openface (k, 714) float32, openface_mask | a frame |
| resnet50 | resnet50 (k, 2048) float16 | a frame |
| dope | dope_body_2d (k, 13, 2), dope_hands_3d (k, 2, 21, 3), … float32, dope_mask | a frame |
| audio | audio (n, 65) float32, audio_mask, audio_length | 10 ms from the clip's start; or a frame, without length |
| words | words (n, 300) float32, words_mask, words_length | a word; or a frame, without length |
| sentence | sentence (n, 384) float32, sentence_mask, sentence_length | an utterance; or a frame, without length |
| story | story (384,) float32 | the story |
| label | label () int64: the rating, 1 to 5 | the story |

k is the number of frames of a clip, and n the largest number of rows that any clip of the study has. Values are as they
are stored, also where the mask is False: NaN, or the stale landmarks of a lost face.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd

from storyframes.clips.columns import ColumnTable, openface_columns, vision_columns
from storyframes.clips.input_readers import (
    AudioRows,
    Field,
    FrameMask,
    FramePart,
    FrameRows,
    InputReader,
    Label,
    NotNanMask,
    SpokenPerFrame,
    StoryVector,
    UtteranceRows,
    WordRows,
)
from storyframes.clips.lengths import longest_audio, longest_utterances, longest_words
from storyframes.features import FEATURES, VISION, Axis
from storyframes.store.feature_store import FeatureStore

_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class ClipInput:
    """One input as a training job wants it.

    Attributes:
        name: vision, openface, resnet50, dope, audio, words, sentence, story or label.
        columns: names of columns or groups, in the order wanted; None takes all. The groups of openface and vision are
            "gaze", "eye_landmarks", "pose", "landmarks_2d", "landmarks_3d", "shape", "action_units", "bookkeeping", and
            "measurements", which is all of these but the bookkeeping; vision has "openface" and "resnet50" as well. For
            dope, the names of its arrays ("body_2d", "hands_3d").
        axis: what a row stands for. :attr:`Axis.FRAME` gives audio, words and sentence one row per frame instead of
            their own rows (:attr:`Axis.AUDIO_FRAME`, :attr:`Axis.WORD`, :attr:`Axis.UTTERANCE`), which is the default.

    Raises:
        TypeError: ``columns`` is one string.
        ValueError: there is no such axis. Whether there is such an input and such columns, :class:`ClipDataset` says.

    Example:
        >>> from storyframes import ClipDataset, ClipInput
        >>> face = ClipInput("openface", ["gaze", "AU12_r"])
        >>> dataset = ClipDataset("FEATURES", [face, ClipInput("audio", axis="frame")])
        >>> dataset.fields["openface"].columns[-2:]
        ('gaze_angle_y', 'AU12_r')
        >>> {name: field.shape for name, field in dataset.fields.items() if not name.endswith("_mask")}
        {'openface': (120, 9), 'audio': (120, 65), 'index': ()}
    """

    name: str
    columns: Sequence[str] | None = None
    axis: Axis | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError(f"columns={self.columns!r} is one string; give a sequence of names: [{self.columns!r}]")
        if self.axis is not None:
            object.__setattr__(self, "axis", Axis(self.axis))  # "frame" will do


@dataclass(frozen=True)
class ClipSource:
    """What readers are made from.

    Attributes:
        store: the store.
        index: the whole clip index.
        sessions: the sessions of the clips that will be read; each has what the input needs.
        frames: frames of a clip.
    """

    store: FeatureStore
    index: pd.DataFrame
    sessions: Sequence[str]
    frames: int


@dataclass(frozen=True)
class InputKind:
    """What the name of an input stands for.

    Attributes:
        features: what a session needs to have.
        axes: what a row can be, the default first.
        readers: makes the readers.
        has_columns: whether columns can be chosen.
    """

    features: tuple[str, ...]
    axes: tuple[Axis, ...]
    readers: Callable[[ClipSource, ClipInput, Axis], list[InputReader]]
    has_columns: bool = False


def input_kind(name: str) -> InputKind:
    """What ``name`` stands for.

    Raises:
        ValueError: there is no such input.
    """
    if name not in INPUTS:
        raise ValueError(f"there is no input {name!r}; there are {', '.join(INPUTS)}")
    return INPUTS[name]


def open_input(source: ClipSource, wanted: ClipInput) -> list[InputReader]:
    """The readers of one input.

    Raises:
        ValueError: it has no such columns or rows, or its sessions have different columns.
    """
    kind = input_kind(wanted.name)
    axis = wanted.axis or kind.axes[0]
    if axis not in kind.axes:
        raise ValueError(f"axis of {wanted.name!r} cannot be {str(axis)!r}, only {' or '.join(map(repr, kind.axes))}")
    if wanted.columns is not None and not kind.has_columns:
        having = ", ".join(name for name, other in INPUTS.items() if other.has_columns)
        raise ValueError(f"columns of {wanted.name!r} cannot be chosen; those of {having} can")
    return kind.readers(source, wanted, Axis(axis))


# --- per frame -------------------------------------------------------------------------------------------------------


def _openface(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    chosen = openface_columns().choose(wanted.columns)
    field = Field((source.frames, len(chosen.names)), _FLOAT32, chosen.names)
    return [
        FrameRows("openface", field, (FramePart("openface", columns=chosen.pieces),)),
        FrameMask("openface_mask", source.frames, "openface", "valid"),
    ]


def _vision(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    chosen = vision_columns().choose(wanted.columns)
    parts = tuple(
        FramePart(feature, columns=tuple(piece for _, piece in pieces))
        for feature, pieces in groupby(_by_feature(chosen.pieces), key=lambda pair: pair[0])
    )
    field = Field((source.frames, len(chosen.names)), _FLOAT32, chosen.names)
    return [FrameRows("vision", field, parts), FrameMask("vision_mask", source.frames, "openface", "valid")]


def _by_feature(pieces: Sequence[slice]) -> list[tuple[str, slice]]:
    """Columns of vision as columns of the features that it is put together from, in the same order."""
    found = []
    for piece in pieces:
        first = 0
        for feature in VISION:
            width = len(FEATURES[feature].columns)
            start, stop = max(piece.start - first, 0), min(piece.stop - first, width)
            if start < stop:
                found.append((feature, slice(start, stop)))
            first += width
    return found


def _resnet50(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    return [_frame_array(source, "resnet50", "resnet50", "values")]


def _dope(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    there = [
        name
        for name, spec in FEATURES["dope"].arrays.items()
        if spec.axis is Axis.FRAME and not spec.optional and name != "sampled"
    ]
    chosen = there if wanted.columns is None else list(wanted.columns)
    if unknown := [name for name in chosen if name not in there]:
        raise ValueError(f"dope has no array {unknown[0]!r} for a clip; it has {', '.join(there)}")
    arrays = [_frame_array(source, f"dope_{name}", "dope", name) for name in chosen]
    return [*arrays, FrameMask("dope_mask", source.frames, "dope", "sampled")]


def _frame_array(source: ClipSource, name: str, feature: str, array: str) -> InputReader:
    """A per-frame array as it is stored."""
    spec = FEATURES[feature].arrays[array]
    field = Field((source.frames, *spec.shape), np.dtype(spec.dtype), spec.columns)
    return FrameRows(name, field, (FramePart(feature, array),))


# --- sound and text --------------------------------------------------------------------------------------------------


def _audio(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    array = "per_frame" if axis is Axis.FRAME else "values"
    chosen = _descriptors(source, array).choose(wanted.columns)
    rows = source.frames if axis is Axis.FRAME else longest_audio(source.store, source.index)
    field = Field((rows, len(chosen.names)), _FLOAT32, chosen.names)
    if axis is Axis.FRAME:
        return [
            FrameRows("audio", field, (FramePart("opensmile", array, chosen.pieces),)),
            NotNanMask("audio_mask", source.frames, "opensmile", array),
        ]
    return [AudioRows("audio", field, chosen.pieces)]


def _descriptors(source: ClipSource, array: str) -> ColumnTable:
    """openSMILE's columns; which they are depends on the feature set that was extracted."""
    widths = {source.store.describe(session, "opensmile", array).shape[1]: session for session in source.sessions}
    if len(widths) > 1:
        sets = " and ".join(f"{width} in {session}" for width, session in widths.items())
        raise ValueError(f"sessions differ in their openSMILE columns ({sets}): extract them with one feature set")
    return ColumnTable(source.store.columns(source.sessions[0], "opensmile", array))


def _words(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    spec = FEATURES["glove"].arrays["values"]
    rows = source.frames if axis is Axis.FRAME else longest_words(source.store, source.index)
    field = Field((rows, *spec.shape), _FLOAT32, spec.columns)
    if axis is Axis.FRAME:
        return [SpokenPerFrame("words", field, "glove", frame_row="frame_word", known="known")]
    return [WordRows("words", field)]


def _sentence(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    spec = FEATURES["sbert"].arrays["values"]
    rows = source.frames if axis is Axis.FRAME else longest_utterances(source.store, source.index)
    field = Field((rows, *spec.shape), _FLOAT32, spec.columns)
    if axis is Axis.FRAME:
        return [SpokenPerFrame("sentence", field, "sbert", frame_row="frame_utterance")]
    return [UtteranceRows("sentence", field)]


# --- one for each clip -----------------------------------------------------------------------------------------------


def _story(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    spec = FEATURES["sbert"].arrays["values"]
    rows = {story_id: row for row, story_id in enumerate(source.store.story_ids("sbert"))}
    return [StoryVector("story", Field(spec.shape, _FLOAT32, spec.columns), rows)]


def _label(source: ClipSource, wanted: ClipInput, axis: Axis) -> list[InputReader]:
    return [Label("label")]


INPUTS: Mapping[str, InputKind] = {
    "vision": InputKind(VISION, (Axis.FRAME,), _vision, has_columns=True),
    "openface": InputKind(("openface",), (Axis.FRAME,), _openface, has_columns=True),
    "resnet50": InputKind(("resnet50",), (Axis.FRAME,), _resnet50),
    "dope": InputKind(("dope",), (Axis.FRAME,), _dope, has_columns=True),
    "audio": InputKind(("opensmile",), (Axis.AUDIO_FRAME, Axis.FRAME), _audio, has_columns=True),
    "words": InputKind(("glove",), (Axis.WORD, Axis.FRAME), _words),
    "sentence": InputKind(("sbert",), (Axis.UTTERANCE, Axis.FRAME), _sentence),
    "story": InputKind((), (Axis.STORY,), _story),
    "label": InputKind((), (Axis.STORY,), _label),
}
"""Every input by name."""
