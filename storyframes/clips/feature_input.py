"""Any feature of a store as an input of clips, by what the store says of it.

``values`` becomes the field ``<name>``, any other array ``<name>_<array>``. The feature's mask, or else whether a row
is anything but NaN, becomes ``<name>_mask``. Where a clip has the feature's own rows, ``<name>_length`` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from storyframes.array_roles import (
    CLOCKS,
    CONFIDENCE,
    FRAME_ROW,
    PER_FRAME,
    ChosenColumns,
    ColumnTable,
    MaskRule,
    mask_rule,
)
from storyframes.clips.grid import grid_of, grid_offsets, open_frame_grid, open_grid
from storyframes.clips.inputs import MASK, ClipInput, ClipSource, Field
from storyframes.clips.readers import (
    CurveRows,
    FieldPart,
    FrameRows,
    InputReader,
    PaddedRows,
    PooledRows,
    SpokenPerFrame,
)
from storyframes.clips.row_finders import (
    IndexedSound,
    RowFinder,
    RowsOfSpeakers,
    Speakers,
    SpokenAtFrames,
    SpokenAtPoints,
    SpokenFinder,
    SpokenInClip,
    check_windows,
    find_speakers,
    refuse_speakers,
    timed_sound,
    windows_inside,
)
from storyframes.features import CLOCK
from storyframes.label_curves import CurveRule
from storyframes.mistakes import unknown
from storyframes.pooling import MEAN, POOLED_OVER, can_be_pooled, pooled_spec, pools
from storyframes.spec import MAIN_ARRAY, Axis, FeatureSpec, feature_and_track, is_label_curve, of_track
from storyframes.store.named.address import AddressError
from storyframes.store.session_times import SessionTimes

# what a clip can be cut from
_AXES = (Axis.FRAME, Axis.AUDIO_FRAME, Axis.WINDOW, Axis.WORD, Axis.UTTERANCE, Axis.MOMENT)


class Way(Enum):
    """Which rows of a feature a clip has."""

    PER_FRAME = "a row for each frame of the clip or, with a rate, for each point of a grid"
    OWN_ROWS = "the feature's own rows that belong to the clip, padded"
    POOLED = "a row for each word or utterance of the clip, over the feature's rows during it"
    AT_RATE = "of the feature's own rows those nearest in time to the points of a grid"


@dataclass(frozen=True)
class _Opening:
    """A feature that is being opened as an input.

    Attributes:
        feature: the feature, as the store calls it.
        spec: its specification, the same in all sessions.
        arrays: by axis, the arrays that a clip can have.
        axis: of the rows that are read.
        speakers: whose rows; None takes everybody's.
        sound: finds the rows of each clip where rows are steps of the sound; None finds them by their times.
    """

    source: ClipSource
    requested: ClipInput
    feature: str
    spec: FeatureSpec
    arrays: Mapping[Axis, list[str]]
    axis: Axis
    speakers: Speakers | None
    sound: IndexedSound | None

    def parts(self) -> tuple[FieldPart, ...]:
        """The fields of the arrays and columns that are asked for."""
        return self.choose({name: name for name in self.arrays[self.axis]})

    def choose(self, arrays: Mapping[str, str]) -> tuple[FieldPart, ...]:
        """The same, of ``arrays``: by the name in ``columns`` the array's name."""
        return _choose(self.requested, self.feature, self.spec, arrays)

    def mask(self) -> MaskRule:
        """Which rows are measurements."""
        names = self.arrays[self.axis]
        rule = mask_rule(self.spec, [MAIN_ARRAY] if MAIN_ARRAY in names else names)
        return replace(rule, min_confidence=self.requested.min_confidence)

    def check_clock(self) -> None:
        """Refuse rows that have no times: nothing says which of them belong to a clip."""
        for clock in CLOCKS[self.axis]:
            if clock not in self.spec.arrays or self.spec.arrays[clock].axis is not self.axis:
                raise ValueError(
                    f"{self.feature!r} has a row for each {self.axis}, but no array {clock!r} that says when one is "
                    "(float64 seconds on the recording's clock): which rows are a clip's cannot be told"
                )


def open_feature(
    source: ClipSource, requested: ClipInput, feature: str, sound: IndexedSound | None = None
) -> InputReader:
    """The reader of one feature: by what its rows stand for, and which of them a clip has.

    Args:
        requested: the input; it says what the fields are called, and of which track they are.
        feature: the feature, without the track.
        sound: finds the rows of each clip where they are steps of the sound; None finds them by their times.

    Raises:
        ValueError: it has no such columns, arrays, rows or speakers, its sessions differ in what they are, or its
            frames are not the clips'.
    """
    feature = of_track(feature, requested.track)
    spec = source.common_spec(feature, groups=requested.columns is not None, except_for=requested.unread)
    arrays = _by_axis(spec)
    if not arrays:
        raise ValueError(f"{feature!r} has no array with a row for each {', '.join(_AXES[:-1])} or {_AXES[-1]}")
    axis, way = _rows_of_clip(requested, feature, spec, arrays)
    if requested.min_confidence is not None:
        _check_confidence(requested, feature, spec, axis, way)
    speakers = None
    if requested.speakers is not None and way is not Way.POOLED:
        speakers = find_speakers(source, requested, feature, spec, axis)
    opening = _Opening(source, requested, feature, spec, arrays, axis, speakers, sound)
    if axis is Axis.WINDOW:
        opening.check_clock()
        check_windows(source, feature)
    return READERS[axis, way](opening)


def _check_confidence(requested: ClipInput, feature: str, spec: FeatureSpec, axis: Axis, way: Way) -> None:
    """Refuse a least confidence of rows that have none of their own."""
    is_mean = axis is Axis.MOMENT or (axis is Axis.AUDIO_FRAME and way is Way.PER_FRAME)
    if is_mean or CONFIDENCE not in spec.arrays or spec.arrays[CONFIDENCE].axis is not axis:
        raise ValueError(
            f"min_confidence of {requested.field!r} cannot be asked: {feature!r} has no array {CONFIDENCE!r} with a "
            f"row for each {axis}; where an older version extracted it, extract it again"
        )


def _rows_of_clip(
    requested: ClipInput, feature: str, spec: FeatureSpec, arrays: Mapping[Axis, list[str]]
) -> tuple[Axis, Way]:
    """What the rows that are read stand for, and which of them a clip has."""
    main = spec.arrays[MAIN_ARRAY].axis if MAIN_ARRAY in spec.arrays else next(iter(arrays))
    main = main if main in arrays else next(iter(arrays))
    if main is Axis.MOMENT:
        refuse_speakers(requested)
        if requested.axis not in (None, Axis.FRAME):
            raise ValueError(
                f"axis of {requested.field!r} cannot be {str(requested.axis)!r}, only 'frame': it has a row for each "
                "frame of the clip, or with rate= so many a second"
            )
        return main, Way.PER_FRAME
    axis = Axis(requested.axis or main)
    if axis is Axis.FRAME:
        if main is Axis.FRAME or (Axis.FRAME in arrays and not _frame_array(spec, main)):
            return Axis.FRAME, Way.PER_FRAME
        if _frame_array(spec, main) or main is Axis.WINDOW:
            return main, Way.PER_FRAME
        if _has_spans(spec, main):
            if requested.rate is None:
                raise ValueError(
                    f"{feature!r} has nothing for each {axis}, only times: give {requested.field!r} a rate= as well"
                )
            return main, Way.PER_FRAME
    if axis in POOLED_OVER and pools(spec):
        if requested.rate is not None:
            raise ValueError(f"{requested.field!r} has no rate, as its rows are pooled over {axis}s: leave out rate=")
        return main, Way.POOLED
    if requested.aligned_to is not None or tuple(requested.functionals) != MEAN:
        raise ValueError(
            f"{requested.field!r} has rows of its own for each {main}, which are not pooled: leave out functionals= "
            "and aligned_to="
        )
    axes = [possible for possible in arrays if possible is not Axis.MOMENT]
    if axis not in axes:
        by_frame = _frame_array(spec, main) or main is Axis.WINDOW
        axes += [Axis.FRAME] if Axis.FRAME not in arrays and by_frame else []
        names = " or ".join(repr(str(possible)) for possible in axes)
        raise ValueError(f"axis of {requested.field!r} cannot be {str(axis)!r}, only {names}")
    return axis, Way.OWN_ROWS if requested.rate is None else Way.AT_RATE


def _by_axis(spec: FeatureSpec) -> dict[Axis, list[str]]:
    """The arrays with values of a row: not its times, whether it is a measurement, or which frames have it."""
    is_sound = MAIN_ARRAY in spec.arrays and spec.arrays[MAIN_ARRAY].axis is Axis.AUDIO_FRAME
    others = {spec.mask, *FRAME_ROW.values(), *((PER_FRAME,) if is_sound else ())}
    arrays: dict[Axis, list[str]] = {}
    for axis in _AXES:
        clocks = ("time", "start", "end") if axis in CLOCKS else ()
        names = [name for name, array in spec.arrays.items() if array.axis is axis]
        if names := [name for name in names if name not in others and name not in clocks]:
            arrays[axis] = names
    return arrays


def _frame_array(spec: FeatureSpec, main: Axis) -> str:
    """The array that gives each frame a row of the feature (or its mean); empty where it has none."""
    name = FRAME_ROW.get(main, PER_FRAME)
    return name if name in spec.arrays and spec.arrays[name].axis is Axis.FRAME else ""


def _has_spans(spec: FeatureSpec, main: Axis) -> bool:
    """Whether rows that are words or utterances have times at which each begins and ends."""
    times = [spec.arrays[name].axis for name in ("start", "end") if name in spec.arrays]
    return main in FRAME_ROW and times == [main, main]


def _choose(requested: ClipInput, feature: str, spec: FeatureSpec, arrays: Mapping[str, str]) -> tuple[FieldPart, ...]:
    """The fields of the arrays and columns that are asked for; ``arrays``: by the name in ``columns`` the array's."""
    asked = requested.columns
    if twice := [name for name in arrays if list(asked or ()).count(name) > 1 and name != MAIN_ARRAY]:
        raise ValueError(f"{twice[0]!r} is chosen twice by columns={list(asked or ())}")

    def part(name: str, columns: ChosenColumns | None = None) -> FieldPart:
        array = spec.arrays[arrays[name]]
        shape = (*array.shape[:-1], len(columns.names)) if columns else array.shape
        field = Field(shape, np.dtype(array.dtype), columns.names if columns else array.columns)
        field_name = requested.field if name in (MAIN_ARRAY, requested.part) else f"{requested.field}_{name}"
        if requested.part and field_name != requested.field:  # one of several arrays, with an address of its own
            field_name = of_track(f"{requested.feature}.{name}", requested.track)
        return FieldPart(field_name, field, feature, arrays[name], columns.pieces if columns else (), array.fill)

    if asked is None:
        return tuple(part(name) for name in ([MAIN_ARRAY] if MAIN_ARRAY in arrays else arrays))
    if MAIN_ARRAY not in arrays:
        if absent := [name for name in asked if name not in arrays]:
            raise AddressError(unknown(requested.field, "array", absent[0], arrays, so="a clip can have"))
        if not asked:
            raise ValueError("columns is empty: name an array, or leave it out for all")
        return tuple(part(name) for name in asked)
    values = spec.arrays[arrays[MAIN_ARRAY]]
    table = ColumnTable(values.columns, spec.groups if values.columns == spec.columns else {})
    others = [name for name in asked if name in arrays and (name not in table or name == requested.part)]
    columns = [name for name in asked if name not in others]
    if not table.names and columns:
        names = ", ".join(name for name in arrays if name != MAIN_ARRAY)
        raise ValueError(
            f"the columns of {requested.field!r} have no names in the store, so there is no {columns[0]!r} to choose"
            + (f"; its other arrays are {names}" if names else "")
        )
    main = (part(MAIN_ARRAY, table.choose(columns)),) if columns or not others else ()
    return (*main, *(part(name) for name in others))


# --- the readers by axis and way -------------------------------------------------------------------------------------


def _frame_rows(opening: _Opening) -> InputReader:
    return _nearest_rows(opening, opening.parts(), opening.mask(), CLOCK)


def _means_per_frame(opening: _Opening) -> InputReader:
    """Sound, by the array with a mean for each frame."""
    parts = opening.choose({MAIN_ARRAY: PER_FRAME} | {name: name for name in opening.arrays.get(Axis.FRAME, ())})
    return _nearest_rows(opening, parts, mask_rule(opening.spec, [PER_FRAME]), CLOCK)


def _timed_at_rate(opening: _Opening) -> InputReader:
    """Sound or windows, by the ``time`` of their rows."""
    opening.check_clock()
    return _nearest_rows(opening, opening.parts(), opening.mask(), feature_and_track(opening.feature)[0])


def _nearest_rows(opening: _Opening, parts: tuple[FieldPart, ...], mask: MaskRule, timed_by: str) -> InputReader:
    grid = grid_of(opening.source, opening.requested, timed_by)
    rows = len(grid) if grid else opening.source.frames
    return FrameRows(opening.requested.field, opening.feature, parts, rows, mask, grid)


def _spoken_per_frame(opening: _Opening) -> InputReader:
    source, requested, parts = opening.source, opening.requested, opening.parts()
    finder: SpokenFinder
    if frame_array := _frame_array(opening.spec, opening.axis):
        grid = grid_of(source, requested, CLOCK)
        finder, rows = SpokenAtFrames(opening.feature, frame_array, grid), len(grid) if grid else source.frames
    else:
        offsets = grid_offsets(source, requested.rate or 0.0, requested.field)
        finder, rows = SpokenAtPoints(opening.feature, offsets, source.clock(requested.track)), len(offsets)
    return SpokenPerFrame(requested.field, opening.feature, parts, rows, opening.mask(), finder, opening.speakers)


def _padded_rows(opening: _Opening) -> InputReader:
    opening.check_clock()
    source, device, parts = opening.source, opening.source.clock(opening.requested.track), opening.parts()
    finder: RowFinder
    if opening.axis is Axis.AUDIO_FRAME:
        finder = opening.sound or timed_sound(source.store, source.index, opening.feature, device)
    elif opening.axis is Axis.WINDOW:
        finder = windows_inside(source, opening.feature, device, each=opening.requested.missing != MASK)
    else:
        finder = SpokenInClip(opening.feature, opening.axis is Axis.UTTERANCE, device)
        finder = RowsOfSpeakers(finder, opening.speakers) if opening.speakers else finder
    longest = finder.longest(source.store, source.index)
    return PaddedRows(opening.requested.field, opening.feature, parts, longest, opening.mask(), finder)


def _pooled_rows(opening: _Opening) -> InputReader:
    """Frames or steps of the sound, over each word or utterance of the clip.

    A clip has the same words, in the same order, as an input of words has: those that start in it. Each is pooled over
    its whole time, also where it ends after the clip. Utterances are those that overlap the clip.
    """
    source, requested, feature, spec = opening.source, opening.requested, opening.feature, opening.spec
    parts = opening.choose({name: name for name in opening.arrays[opening.axis] if can_be_pooled(spec.arrays[name])})
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
    return PooledRows(requested.field, feature, tuple(pooled), longest, opening.mask(), finder, functionals, spans)


def _moments(opening: _Opening) -> InputReader:
    """Rows at moments of their own: those nearest to the clip's frames or points, or a curve's values there."""
    opening.check_clock()
    source, requested, feature, parts = opening.source, opening.requested, opening.feature, opening.parts()
    rules: dict[str, CurveRule] = {}
    if is_label_curve(feature_and_track(feature)[0]):
        for session in source.clips["session_id"].unique().tolist():
            rules[session] = CurveRule.of(source.store.attributes(session, feature), f"{session}/{feature}")
    if requested.rate is None:
        grid = open_frame_grid(source, requested, feature, rules)
    else:
        grid = open_grid(source, requested, requested.rate, feature, rules)
    if rules:
        return CurveRows(requested.field, feature, parts, len(grid), grid)
    return FrameRows(requested.field, feature, parts, len(grid), opening.mask(), grid)


def _refuse_rate(opening: _Opening) -> InputReader:
    raise ValueError(
        f"{opening.requested.field!r} has a row for each {opening.axis}, which has no rate: give axis='frame' as well"
    )


READERS: Mapping[tuple[Axis, Way], Callable[[_Opening], InputReader]] = {
    (Axis.FRAME, Way.PER_FRAME): _frame_rows,
    (Axis.FRAME, Way.POOLED): _pooled_rows,
    (Axis.AUDIO_FRAME, Way.POOLED): _pooled_rows,
    (Axis.AUDIO_FRAME, Way.PER_FRAME): _means_per_frame,
    (Axis.AUDIO_FRAME, Way.OWN_ROWS): _padded_rows,
    (Axis.AUDIO_FRAME, Way.AT_RATE): _timed_at_rate,
    (Axis.WINDOW, Way.PER_FRAME): _moments,
    (Axis.WINDOW, Way.OWN_ROWS): _padded_rows,
    (Axis.WINDOW, Way.AT_RATE): _timed_at_rate,
    (Axis.WORD, Way.PER_FRAME): _spoken_per_frame,
    (Axis.WORD, Way.OWN_ROWS): _padded_rows,
    (Axis.WORD, Way.AT_RATE): _refuse_rate,
    (Axis.UTTERANCE, Way.PER_FRAME): _spoken_per_frame,
    (Axis.UTTERANCE, Way.OWN_ROWS): _padded_rows,
    (Axis.UTTERANCE, Way.AT_RATE): _refuse_rate,
    (Axis.MOMENT, Way.PER_FRAME): _moments,
}
"""What opens the reader of an input, by what the stored rows stand for and which of them a clip has."""
