"""An input of a clip as a training job asks for it, what its readers are made from, and a clip as they see it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from storyframes.array_roles import CONFIDENCE, IN_REGION, PER_FRAME, SPEAKER
from storyframes.features import SIDE_BY_SIDE
from storyframes.pooling import MEAN, POOLED_OVER, check_functionals
from storyframes.spec import MAIN, MAIN_ARRAY, ArraySpec, Axis, FeatureSpec, of_track, shown_names
from storyframes.store.feature_store import FeatureStore
from storyframes.store.named.address import AddressError, locate, parse_address
from storyframes.times import SESSIONS_OWN, StoredClocks, TrackClock, track_clock

ERROR, MASK = "error", "mask"
SESSION, PERSON, TRAINING = "session", "person", "training"


@dataclass(frozen=True)
class ClipInput:
    """One input of clips, as a training job asks for it.

    Attributes:
        name: any feature of the store, or vision.measured, vision, audio, words, sentence, story or label; or a part of
            one (``openface.gaze``, ``openface.AU12_r``, ``glove.frame``; columns are always the field's last
            dimension). Of another track also written ``<name>@<track>``. ``label.<scheme>`` is a scheme's curve, at
            each frame of the clip.
        columns: names of columns or groups of ``values``, in the order of the field, and of the feature's other arrays;
            None takes all columns of ``values``, or all arrays of a feature without ``values``.
            :meth:`FeatureStore.spec` shows them. The groups of openface and vision are "gaze", "eye_landmarks", "pose",
            "landmarks_2d", "landmarks_3d", "shape", "action_units", "bookkeeping", and "measurements", which is all of
            these except the bookkeeping; vision has "openface" and "resnet50" as well, and vision.measured is vision
            without its bookkeeping. dope has no ``values`` but
            arrays ("body_2d", "hands_3d"). The columns of label are schemes, each a field of its own.
        axis: what a row stands for; None takes what it is in ``values``. :attr:`Axis.FRAME` gives a feature of sound,
            words or utterances one row per frame, if the store has its rows by frame, and one of windows of the video
            the window whose middle is nearest. :attr:`Axis.WORD` or
            :attr:`Axis.UTTERANCE` pools a feature of frames or sound: a row for each word of the clip, over the frames
            or steps of the sound during the word's own time, also where it ends after the clip.
        speakers: takes only words and utterances of these speakers, by their names in the store (``participant``,
            ``robot``); None takes everybody's.
        rate: points a second of a grid that begins with the clip; each has the row nearest to it, whatever rate the
            feature has. None takes the rows as they are.
        weights: adds to each label the certainty of its raters: a field ``<label>_weight``, float32 from 0 to 1. It is
            1 where no rater gives one, and 0 where the clip has no value.
        track: whose camera or microphone; the fields of another track than the session's own are called
            ``<name>@<track>``, ``<name>@<track>_mask``, …. Its rows are found by its clock, as in the clip index.
        missing: of clips whose session lacks the feature: ``"error"`` refuses them (or leaves them out, with the
            dataset's ``drop_missing``), ``"mask"`` gives a mask that is all False over NaN, and over 0 where rows are
            padded, whose length is 0 then. So one dataset has sessions with a camera and without.
        min_confidence: the mask is False also where the feature's array ``confidence`` is below this, 0 to 1: words of
            which the speech recogniser was not sure, frames of openface and vision. A row without a confidence (NaN) is
            kept.
        functionals: of pooled rows "mean", "std" or "max" or several, of each column that is asked for; names other
            than the means' are ``<column>.<functional>``.
        standardise: subtracts a centre from each column and divides by a spread: "session", the median and the standard
            deviation of all measured rows of the session; "person", of all sessions of its participant in the clip
            index (splits are by person, so they are of one split); "training", the mean and the standard deviation of
            the training clips, which are read when the dataset is opened. A spread of 0 counts as 1. Of padded rows
            only those whose mask is True are changed.
        aligned_to: the feature over whose words or utterances rows are pooled (``glove@lapel``: of another track); None
            takes glove for words, and sbert for utterances.

    Raises:
        TypeError: ``columns``, ``speakers`` or ``functionals`` is one string.
        ValueError: the axis is unknown, the rate is not positive, ``standardise`` is none of the three or is asked of
            labels, stories, chosen speakers or pooled rows, ``speakers`` is empty, ``weights`` are asked of
            another input than label, ``missing`` is neither of the two, ``missing`` or ``min_confidence`` is asked of
            a label or a story, ``min_confidence`` is not from 0 to 1, or ``name`` has another track in it.
            :class:`ClipDataset` checks whether the store has such an input and such columns, speakers, confidences
            and tracks.

    Example:
        >>> from storyframes import ClipDataset, ClipInput
        >>> face = ClipInput("openface", ["gaze", "AU12_r"])
        >>> dataset = ClipDataset("STORE", [face, ClipInput("audio", axis="frame")])
        >>> dataset.fields["openface"].columns[-2:]
        ('gaze_angle_y', 'AU12_r')
        >>> {name: field.shape for name, field in dataset.fields.items() if not name.endswith("_mask")}
        {'openface': (120, 9), 'audio': (120, 65), 'index': ()}
    """

    name: str
    columns: Sequence[str] | None = None
    axis: Axis | None = None
    speakers: Sequence[str] | None = None
    rate: float | None = None
    track: str = MAIN
    weights: bool = False
    missing: str = ERROR
    min_confidence: float | None = None
    functionals: Sequence[str] = MEAN
    aligned_to: str | None = None
    standardise: str | None = None

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", {list(self.columns)!r}"
        axis = f", axis={str(self.axis)!r}" if self.axis else ""
        speakers = "" if self.speakers is None else f", speakers={list(self.speakers)!r}"
        rate = "" if self.rate is None else f", rate={self.rate:g}"
        track = "" if self.track == MAIN else f", track={self.track!r}"
        weights = ", weights=True" if self.weights else ""
        missing = "" if self.missing == ERROR else f", missing={self.missing!r}"
        confident = "" if self.min_confidence is None else f", min_confidence={self.min_confidence:g}"
        pooled = "" if tuple(self.functionals) == MEAN else f", functionals={list(self.functionals)!r}"
        pooled += "" if self.aligned_to is None else f", aligned_to={self.aligned_to!r}"
        pooled += "" if self.standardise is None else f", standardise={self.standardise!r}"
        return f"ClipInput({self.name!r}{columns}{axis}{speakers}{rate}{track}{weights}{missing}{confident}{pooled})"

    def __post_init__(self) -> None:
        address = parse_address(self.name)
        if address.track != MAIN:
            if self.track not in (MAIN, address.track):
                raise ValueError(f"{self.name!r} is of the track {address.track!r}, not of track={self.track!r}")
            object.__setattr__(self, "track", address.track)
        object.__setattr__(self, "name", address.name)
        for what, names in (("columns", self.columns), ("speakers", self.speakers)):
            if isinstance(names, str):
                raise TypeError(f"{what}={names!r} is one string; give a sequence of names: [{names!r}]")
        if self.speakers is not None and not len(self.speakers):
            raise ValueError("speakers is empty: name at least one, or leave it out for all")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ValueError(f"rate={self.rate!r} has to be more than 0 rows a second")
        if self.weights and self.name != "label":
            raise ValueError(f"{self.name!r} has no weights: only 'label' has")
        if self.missing not in (ERROR, MASK):
            raise ValueError(f"missing={self.missing!r} of {self.name!r}: {ERROR!r} or {MASK!r}")
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise ValueError(f"min_confidence={self.min_confidence!r} has to be from 0 to 1")
        if self.min_confidence is not None and self.name in ("label", "story"):
            raise ValueError(f"{self.name!r} has no mask, and so no min_confidence")
        if self.missing == MASK and self.name in ("label", "story"):
            raise ValueError(f"{self.name!r} has no mask: leave clips without it out with drop_missing=True")
        if self.standardise not in (None, SESSION, PERSON, TRAINING):
            raise ValueError(
                f"standardise={self.standardise!r} of {self.name!r}: {SESSION!r}, {PERSON!r} or {TRAINING!r}"
            )
        if self.standardise and (self.feature in ("label", "story") or self.speakers or self.axis in POOLED_OVER):
            raise ValueError(
                f"{self.name!r} cannot be standardised: no labels, stories, chosen speakers or pooled rows"
            )
        if self.axis is not None:
            object.__setattr__(self, "axis", Axis(self.axis))  # "frame" will do
        if tuple(self.functionals) != MEAN:
            check_functionals(self.functionals)
        if self.axis not in POOLED_OVER and (self.aligned_to is not None or tuple(self.functionals) != MEAN):
            raise ValueError(f"{self.name!r} has functionals and aligned_to only with axis='word' or 'utterance'")

    @property
    def field(self) -> str:
        """The name of its main field, with which the names of the others begin."""
        return of_track(self.name, self.track)

    @property
    def feature(self) -> str:
        """The feature of the store, or the input with a name of its own, without the part."""
        return parse_address(self.name).feature

    @property
    def part(self) -> str:
        """The part of the feature that the name has; empty for none."""
        return parse_address(self.name).part

    @property
    def unread(self) -> set[str]:
        """The arrays that not all sessions need to have: older stores lack them, and this input does not read them."""
        speaker = {SPEAKER} if self.speakers is not None else set()
        confidence = {CONFIDENCE} if self.min_confidence is not None else set()
        return {SPEAKER, CONFIDENCE} - {*(self.columns or ()), *speaker, *confidence}

    def resolved(self, store: FeatureStore) -> ClipInput:
        """The same with the columns and rows of its part, as the store has them.

        Raises:
            ValueError: the feature has no such part, or ``columns`` are given as well.
        """
        if not self.part and "." not in self.track:
            return self
        stored = {of_track(feature, track) for track in store.all_tracks for feature in store.features_of(track)}
        address = parse_address(self.field, stored)
        if not address.part:
            return self
        own = replace(self, name=address.name, track=address.track)
        if self.columns is not None:
            raise ValueError(f"{self.field!r} has its columns in its name: leave out columns={list(self.columns)!r}")
        session = next((one for one in store.sessions if all(store.has(one, name) for name in address.stored)), None)
        if session is None:
            return own  # its feature is missed later, by its name
        located = locate(address, lambda feature: store.spec(session, feature))
        if self.feature in SIDE_BY_SIDE and len(SIDE_BY_SIDE[self.feature]) > 1:
            return replace(own, columns=[address.part])
        ((feature, part),) = located
        spec = store.spec(session, feature)
        if part.arrays == (spec.mask,):
            raise AddressError(
                f"{self.field!r} is the mask, which the input {feature!r} has as its field {feature}_mask"
            )
        arrays = spec.arrays
        main = arrays[MAIN_ARRAY if MAIN_ARRAY in arrays else next(iter(arrays))].axis
        axis = None if part.rows in (None, str(main)) else Axis(part.rows)
        columns = None if part.name == part.rows else list(part.arrays) or None
        if part.arrays in ((MAIN_ARRAY,), (PER_FRAME,)):
            names = part.of_array(arrays[part.arrays[0]]).columns
            columns = list(names) if part.places else None
        elif part.places:
            raise AddressError(f"{self.field!r}: of {part.arrays[0]} a clip has all columns; leave out what follows it")
        return replace(own, columns=columns, axis=self.axis or axis)


Batch = Mapping[str, np.ndarray]
"""The arrays of a batch by field; the first dimension counts clips."""


@dataclass(frozen=True)
class Field:
    """One array of a clip.

    Attributes:
        shape: of one clip, without the batch's dimension.
        columns: a name for each entry of the last dimension, or empty.
        names: the names of the classes 0, 1, … where the numbers are classes; else empty.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        columns, names = shown_names(", columns ", self.columns), shown_names(", names ", self.names)
        return f"Field({self.shape}, {self.dtype}{columns}{names})"


@dataclass(frozen=True)
class ClipSource:
    """What readers are made from.

    Attributes:
        index: the whole clip index.
        sessions: the sessions of the clips that will be read; each has the features that the input needs.
        clips: the clips that will be read, in the dataset's order.
        clocks: the clocks of the tracks, as in the clip index.
        track: the track whose frames the clips count.
        window_s: seconds of a window, where windows were cut in seconds.
    """

    store: FeatureStore
    index: pd.DataFrame
    sessions: Sequence[str]
    clips: pd.DataFrame
    clocks: StoredClocks = field(default_factory=dict)
    track: str = MAIN
    window_s: float | None = None

    def common_spec(self, feature: str, *, groups: bool = False, except_for: Collection[str] = ()) -> FeatureSpec:
        """What the feature is, which has to be the same in all sessions that are read.

        Sound and words have arrays with a row for each frame as well, but not in a session without a video: where some
        sessions lack them, they are left out. So is the mask of a track that is a region of a picture in some sessions
        only, as long as NaN says the same.

        Args:
            groups: whether the groups of columns have to be the same as well.
            except_for: arrays beside ``values`` that only some sessions may have, because nobody reads them.

        Raises:
            ValueError: two sessions differ; the message names both.
        """
        specs = self.store.specs(self.sessions, feature)
        alike = {id(spec): spec for spec in specs.values()}
        if len({has_frame_rows(spec) for spec in alike.values()}) > 1:
            alike = {number: _own_rows(spec) for number, spec in alike.items()}
        if {"", IN_REGION} <= {spec.mask for spec in alike.values()}:
            alike = {number: _without_region_mask(spec) for number, spec in alike.items()}
        specs = {session: alike[id(spec)] for session, spec in specs.items()}
        first, spec = next(iter(specs.items()))
        for session, other in specs.items():
            if other is not spec and (difference := _difference(spec, other, groups=groups, except_for=except_for)):
                what, its, others = difference
                raise ValueError(
                    f"sessions differ in {what} of {feature!r} ({its} in {first}, {others} in {session}): extract them "
                    "with one configuration and one version of the extractor"
                )
        return spec

    def clock(self, track: str) -> TrackClock:
        """The clock of a track's device.

        Raises:
            ValueError: the clip index does not have it for a session that is read.
        """
        if track == MAIN:
            return SESSIONS_OWN
        clock = track_clock(self.clocks, track)
        if unknown := [session for session in self.sessions if not clock.is_known(session)]:
            raise ValueError(
                f"the clip index does not say how the clock of the track {track!r} runs in {len(unknown)} of "
                f"{len(self.sessions)} sessions ({', '.join(unknown[:3])}{', …' if len(unknown) > 3 else ''}): it is "
                "older than the track; 'storyframes index STUDY STORE' writes it"
            )
        return clock

    @property
    def frames(self) -> int:
        """The number of frames of every clip.

        Raises:
            ValueError: clips differ in it.
        """
        lengths = (self.clips["stop_frame"] - self.clips["start_frame"]).unique()
        if len(lengths) > 1:
            raise ValueError(
                f"clips have {sorted(lengths.tolist())} frames: filter those of one length, give each input that has a "
                "row per frame a rate= in rows a second, or index the study again"
            )
        return int(lengths[0])


class Clip(NamedTuple):
    """The values of a clip index's row that readers need, and the row's number in the dataset."""

    row: int
    session_id: str
    story_id: str
    start_frame: int
    stop_frame: int
    start_s: float
    stop_s: float
    audio_start: int
    audio_stop: int


def has_frame_rows(spec: FeatureSpec, rate: float | None = None) -> bool:
    """Whether it has an array with a row for each frame; or, for a grid of this rate, times instead."""
    return (rate is not None and {"start", "end"} <= {*spec.arrays}) or any(
        array.axis is Axis.FRAME for array in spec.arrays.values()
    )


def _own_rows(spec: FeatureSpec) -> FeatureSpec:
    """A feature without the arrays that have a row for each frame; as it is where it has no other."""
    own = {name: array for name, array in spec.arrays.items() if array.axis is not Axis.FRAME}
    return replace(spec, arrays=own) if own else spec


def _without_region_mask(spec: FeatureSpec) -> FeatureSpec:
    """A feature of a region as of a file of its own, where rows in which nobody is seen are NaN in all arrays."""
    arrays = {name: array for name, array in spec.arrays.items() if name != IN_REGION}
    says_nan = all(math.isnan(array.fill) for array in arrays.values() if array.axis is Axis.FRAME)
    return replace(spec, arrays=arrays, mask="") if spec.mask == IN_REGION and says_nan else spec


def _difference(
    spec: FeatureSpec, other: FeatureSpec, *, groups: bool, except_for: Collection[str]
) -> tuple[str, str, str] | None:
    """What differs between two specifications, and its value in each."""
    names, other_names = (
        [name for name in of.arrays if name not in except_for or MAIN_ARRAY not in of.arrays] for of in (spec, other)
    )
    if names != other_names:
        return "the arrays", ", ".join(names), ", ".join(other_names)
    for name in names:
        array, other_array = spec.arrays[name], other.arrays[name]
        if (array.dimension_names, array.shape) != (other_array.dimension_names, other_array.shape):
            return f"the shape of the array {name!r}", _shape(array), _shape(other_array)
        if array.dtype != other_array.dtype:
            return f"the dtype of the array {name!r}", array.dtype, other_array.dtype
        for what in ("columns", "joints"):
            labels, other_labels = getattr(array, what), getattr(other_array, what)
            if labels != other_labels:
                pairs = zip(labels or ("no name",), other_labels or ("no name",), strict=False)
                label, other_label = next((a, b) for a, b in pairs if a != b)
                return f"the {what} of the array {name!r}", repr(label), repr(other_label)
    if spec.mask != other.mask:
        return "the mask", spec.mask or "none", other.mask or "none"
    if groups and spec.groups != other.groups:
        return "the groups of columns", ", ".join(spec.groups) or "none", ", ".join(other.groups) or "none"
    return None


def _shape(spec: ArraySpec) -> str:
    return " x ".join([str(spec.axis), *(f"{size} {dim}" for dim, size in zip(spec.dims, spec.shape, strict=True))])
