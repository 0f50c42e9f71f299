"""A feature as an input of clips, by what the store says of it: any feature, known to this installation or not.

``values`` becomes the field ``<name>``, any other array ``<name>_<array>``. The feature's mask, or else whether a row
is anything but NaN, becomes ``<name>_mask``; where rows are not frames there is ``<name>_length`` as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from storyframes.array_roles import CLOCKS, FRAME_ROW, PER_FRAME, SPEAKER, ColumnTable, MaskRule, mask_rule
from storyframes.clips.grid import Grid, check_frames_are_the_clips, grid_offsets, open_frame_grid, open_grid
from storyframes.clips.inputs import ClipInput, ClipSource
from storyframes.clips.readers import (
    CurveRows,
    Field,
    FrameMask,
    FramePart,
    FrameRows,
    InputReader,
    PaddedRows,
    RowFinder,
    RowPart,
    SpokenAtFrames,
    SpokenAtPoints,
    SpokenPerFrame,
    SpokenRows,
)
from storyframes.clips.row_finders import (
    IndexedSound,
    RowsOfSpeakers,
    Speakers,
    UtterancesOverlapping,
    WordsStarting,
    find_speakers,
    refuse_speakers,
    timed_sound,
)
from storyframes.features import CLOCK
from storyframes.label_curves import CurveRule, is_label_curve
from storyframes.spec import MAIN_ARRAY, ArraySpec, Axis, FeatureSpec
from storyframes.tracks import feature_and_track, of_track

_AXES = (Axis.FRAME, Axis.AUDIO_FRAME, Axis.WORD, Axis.UTTERANCE, Axis.MOMENT)  # what a clip can be cut from


@dataclass(frozen=True)
class _Chosen:
    """An array of an input, and the columns taken of it; without columns all of it as it is."""

    field: str
    array: str
    spec: ArraySpec
    columns: tuple[str, ...]
    pieces: tuple[slice, ...]

    def shaped(self, rows: int) -> Field:
        """The field of a clip that has so many rows."""
        shape = (*self.spec.shape[:-1], len(self.columns)) if self.pieces else self.spec.shape
        return Field((rows, *shape), np.dtype(self.spec.dtype), self.columns)


def open_feature(
    source: ClipSource, wanted: ClipInput, feature: str, sound: IndexedSound | None = None
) -> list[InputReader]:
    """The readers of one feature.

    Args:
        source: what to read.
        wanted: the input; it says what the fields are called, and of which track they are.
        feature: the feature, without the track.
        sound: finds the rows of each clip, where they are steps of the sound; without it their times do.

    Raises:
        ValueError: it has no such columns, arrays, rows or speakers, its sessions differ in what they are, or its
            frames are not the clips'.
    """
    feature = of_track(feature, wanted.track)
    needs_speaker = wanted.speakers is not None or SPEAKER in (wanted.columns or ())
    spec = common_spec(source, feature, groups=wanted.columns is not None, but="" if needs_speaker else SPEAKER)
    arrays = _by_axis(spec)
    if not arrays:
        raise ValueError(f"{feature!r} has no array with a row for each {', '.join(_AXES[:-1])} or {_AXES[-1]}")
    main = spec.arrays[MAIN_ARRAY].axis if MAIN_ARRAY in spec.arrays else next(iter(arrays))
    main = main if main in arrays else next(iter(arrays))
    if main is Axis.MOMENT:
        return _of_moments(source, wanted, feature, spec, arrays[main])
    axis = Axis(wanted.axis or main)
    through = _way_to_frames(spec, main) if axis is Axis.FRAME and main is not Axis.FRAME else ""
    timed = axis is Axis.FRAME and axis not in arrays and not through and _tells_when_spoken(spec, main)
    if timed and wanted.rate is None:
        raise ValueError(f"{feature!r} has nothing for each {axis}, only times: give {wanted.field!r} a rate= as well")
    if axis not in arrays and not through and not timed:
        axes = [*arrays, *([Axis.FRAME] if Axis.FRAME not in arrays and _way_to_frames(spec, main) else [])]
        raise ValueError(
            f"axis of {wanted.field!r} cannot be {str(axis)!r}, only {' or '.join(repr(str(each)) for each in axes)}"
        )
    speakers = find_speakers(source, wanted, feature, spec, main if through or timed else axis)
    if through == PER_FRAME:
        beside = {name: name for name in arrays.get(Axis.FRAME, ())}
        chosen = _choose(wanted, spec, {MAIN_ARRAY: PER_FRAME, **beside})
        return _of_frames(source, wanted, feature, chosen, mask_rule(spec, [PER_FRAME]))
    there = arrays[main if through or timed else axis]
    chosen = _choose(wanted, spec, {name: name for name in there})
    mask = mask_rule(spec, [MAIN_ARRAY] if MAIN_ARRAY in there else there)
    if through:
        grid = grid_of(source, wanted, CLOCK)
        spoken: SpokenRows = SpokenAtFrames(feature, through, grid)
        return [
            SpokenPerFrame(
                wanted.field, feature, _parts(chosen, len(grid) if grid else source.frames), mask, spoken, speakers
            )
        ]
    if timed and wanted.rate is not None:
        offsets = grid_offsets(source.clips, source.index, wanted.rate, wanted.field)
        spoken = SpokenAtPoints(feature, offsets, source.clock(wanted.track))
        return [SpokenPerFrame(wanted.field, feature, _parts(chosen, len(offsets)), mask, spoken, speakers)]
    if axis is Axis.FRAME:
        return _of_frames(source, wanted, feature, chosen, mask)
    if wanted.rate is not None:
        return _on_clock(source, wanted, feature, spec, axis, chosen, mask)
    return [_padded(source, wanted, feature, spec, axis, chosen, mask, sound, speakers)]


def common_spec(source: ClipSource, feature: str, *, groups: bool = False, but: str = "") -> FeatureSpec:
    """What the feature is, which has to be the same in all sessions that are read.

    Args:
        source: what to read.
        feature: the feature.
        groups: whether the groups of columns have to be the same as well.
        but: an array beside ``values`` that only some sessions may have, because nobody reads it.

    Raises:
        ValueError: two sessions differ; the message names both.
    """
    specs = source.store.specs(source.sessions, feature)
    first, spec = next(iter(specs.items()))
    for session, other in specs.items():
        if other is not spec and (difference := _difference(spec, other, groups=groups, but=but)):
            what, here, there = difference
            raise ValueError(
                f"sessions differ in {what} of {feature!r} ({here} in {first}, {there} in {session}): extract them "
                "with one configuration and one version of the extractor"
            )
    return spec


def _difference(one: FeatureSpec, other: FeatureSpec, *, groups: bool, but: str) -> tuple[str, str, str] | None:
    """What differs, and what it is in each."""
    names, others = ([a for a in each.arrays if a != but or MAIN_ARRAY not in each.arrays] for each in (one, other))
    if names != others:
        return "the arrays", ", ".join(names), ", ".join(others)
    for name in names:
        here, there = one.arrays[name], other.arrays[name]
        if (here.dimension_names, here.shape) != (there.dimension_names, there.shape):
            return f"the shape of the array {name!r}", _shape(here), _shape(there)
        if here.dtype != there.dtype:
            return f"the dtype of the array {name!r}", here.dtype, there.dtype
        for what, labels, other_labels in (
            ("columns", here.columns, there.columns),
            ("joints", here.joints, there.joints),
        ):
            if labels != other_labels:
                pairs = zip(labels or ("no name",), other_labels or ("no name",), strict=False)
                a, b = next((a, b) for a, b in pairs if a != b)
                return f"the {what} of the array {name!r}", repr(a), repr(b)
    if one.mask != other.mask:
        return "the mask", one.mask or "none", other.mask or "none"
    if groups and one.groups != other.groups:
        return "the groups of columns", ", ".join(one.groups) or "none", ", ".join(other.groups) or "none"
    return None


def _shape(spec: ArraySpec) -> str:
    return " x ".join([str(spec.axis), *(f"{size} {dim}" for dim, size in zip(spec.dims, spec.shape, strict=True))])


def _by_axis(spec: FeatureSpec) -> dict[Axis, list[str]]:
    """The arrays that hold something of a row; not those that say when or whether it is, or which frames have it."""
    sound = MAIN_ARRAY in spec.arrays and spec.arrays[MAIN_ARRAY].axis is Axis.AUDIO_FRAME
    ways = {*FRAME_ROW.values(), *((PER_FRAME,) if sound else ())}
    found: dict[Axis, list[str]] = {}
    for axis in _AXES:
        clocks = ("time", "start", "end") if axis in CLOCKS else ()
        names = [name for name, array in spec.arrays.items() if array.axis is axis]
        if held := [name for name in names if name not in (spec.mask, *clocks) and name not in ways]:
            found[axis] = held
    return found


def _way_to_frames(spec: FeatureSpec, main: Axis) -> str:
    """The array through which a row for each frame is had, empty where there is none."""
    name = FRAME_ROW.get(main, PER_FRAME)
    return name if name in spec.arrays and spec.arrays[name].axis is Axis.FRAME else ""


def _tells_when_spoken(spec: FeatureSpec, main: Axis) -> bool:
    """Whether rows that are words or utterances say when each begins and ends."""
    times = [spec.arrays[name].axis for name in ("start", "end") if name in spec.arrays]
    return main in FRAME_ROW and times == [main, main]


def _choose(wanted: ClipInput, spec: FeatureSpec, there: Mapping[str, str]) -> list[_Chosen]:
    """The arrays and columns that are wanted; ``there`` names the array for each that can be."""
    names = wanted.columns or ()
    if twice := [name for name in there if list(names).count(name) > 1 and name != MAIN_ARRAY]:
        raise ValueError(f"{twice[0]!r} is chosen twice by columns={list(names)}")

    def field(name: str) -> str:
        return wanted.field if name == MAIN_ARRAY else f"{wanted.field}_{name}"

    def whole(name: str) -> _Chosen:
        array = spec.arrays[there[name]]
        return _Chosen(field(name), there[name], array, array.columns, ())

    if wanted.columns is None:
        return [whole(name) for name in ([MAIN_ARRAY] if MAIN_ARRAY in there else there)]
    if MAIN_ARRAY not in there:
        if unknown := [name for name in wanted.columns if name not in there]:
            raise ValueError(f"{wanted.field} has no array {unknown[0]!r} for a clip; it has {', '.join(there)}")
        if not wanted.columns:
            raise ValueError("columns is empty: name an array, or leave it out for all")
        return [whole(name) for name in wanted.columns]
    values = spec.arrays[there[MAIN_ARRAY]]
    groups = spec.groups if values.columns == spec.columns else {}
    table = ColumnTable(values.columns, groups)
    arrays = [name for name in wanted.columns if name not in table and name in there]
    columns = [name for name in wanted.columns if name not in arrays]
    if not table.names and columns:
        others = ", ".join(name for name in there if name != MAIN_ARRAY)
        raise ValueError(
            f"the columns of {wanted.field!r} have no names in the store, so there is no {columns[0]!r} to choose"
            + (f"; its other arrays are {others}" if others else "")
        )
    chosen = []
    if columns or not arrays:
        picked = table.choose(columns)
        chosen.append(_Chosen(field(MAIN_ARRAY), there[MAIN_ARRAY], values, picked.names, picked.pieces))
    return chosen + [whole(name) for name in arrays]


def _of_frames(
    source: ClipSource, wanted: ClipInput, feature: str, chosen: list[_Chosen], mask: MaskRule, timed_by: str = CLOCK
) -> list[InputReader]:
    return _on_grid(source, wanted, feature, chosen, mask, grid_of(source, wanted, timed_by))


def _on_grid(
    source: ClipSource, wanted: ClipInput, feature: str, chosen: list[_Chosen], mask: MaskRule, grid: Grid | None
) -> list[InputReader]:
    count = len(grid) if grid else source.frames
    rows = [
        FrameRows(each.field, each.shaped(count), (FramePart(feature, each.array, each.pieces),), grid, each.spec.fill)
        for each in chosen
    ]
    return [*rows, FrameMask(f"{wanted.field}_mask", count, feature, mask, grid)]


def grid_of(source: ClipSource, wanted: ClipInput, timed_by: str) -> Grid | None:
    """The grid that an input is wanted on; None where it is on none, and its frames are the clips'.

    Args:
        source: what to read.
        wanted: the input.
        timed_by: the feature, without the track, whose ``time`` says when each row is.

    Raises:
        ValueError: the grid cannot be; or it is wanted on none, and a track's frames are not the clips'.
    """
    device = source.clock(wanted.track)
    if wanted.rate is None:
        check_frames_are_the_clips(source, wanted, device)
        return None
    times = of_track(timed_by, wanted.track)
    return open_grid(source.store, source.clips, source.index, wanted.rate, times, wanted.field, device)


def _on_clock(
    source: ClipSource,
    wanted: ClipInput,
    feature: str,
    spec: FeatureSpec,
    axis: Axis,
    chosen: list[_Chosen],
    mask: MaskRule,
) -> list[InputReader]:
    """Rows that are no frames and have times of their own, on a grid."""
    if axis is not Axis.AUDIO_FRAME:
        raise ValueError(f"{wanted.field!r} has a row for each {axis}, which has no rate: give axis='frame' as well")
    _check_clock(feature, spec, axis)
    return _of_frames(source, wanted, feature, chosen, mask, feature_and_track(feature)[0])


def _of_moments(
    source: ClipSource, wanted: ClipInput, feature: str, spec: FeatureSpec, there: list[str]
) -> list[InputReader]:
    """Rows at moments of their own: those nearest to the clip's frames, or to the points of a grid."""
    refuse_speakers(wanted)
    if wanted.axis not in (None, Axis.FRAME):
        raise ValueError(
            f"axis of {wanted.field!r} cannot be {str(wanted.axis)!r}, only 'frame': it has a row for each frame of "
            "the clip, or with rate= so many a second"
        )
    _check_clock(feature, spec, Axis.MOMENT)
    chosen = _choose(wanted, spec, {name: name for name in there})
    rules = {}
    if is_label_curve(feature_and_track(feature)[0]):
        sessions = source.clips["session_id"].unique().tolist()
        rules = {each: CurveRule.of(source.store.attributes(each, feature), f"{each}/{feature}") for each in sessions}
    device = source.clock(wanted.track)
    if wanted.rate is None:
        clips_of = of_track(CLOCK, source.track), source.clock(source.track)
        grid = open_frame_grid(source.store, source.clips, source.frames, feature, device, clips_of, rules)
    else:
        grid = open_grid(source.store, source.clips, source.index, wanted.rate, feature, wanted.field, device, rules)
    if not rules:
        return _on_grid(source, wanted, feature, chosen, mask_rule(spec, [MAIN_ARRAY]), grid)
    parts = {each.field: (each.shaped(len(grid)), each.array) for each in chosen}
    return [CurveRows(wanted.field, feature, parts, {each.field: each.spec.fill for each in chosen}, grid)]


def _check_clock(feature: str, spec: FeatureSpec, axis: Axis) -> None:
    for clock in CLOCKS[axis]:
        if clock not in spec.arrays or spec.arrays[clock].axis is not axis:
            raise ValueError(
                f"{feature!r} has a row for each {axis}, but no array {clock!r} that says when one is (float64 seconds "
                "on the recording's clock): which rows are a clip's cannot be told"
            )


def _padded(
    source: ClipSource,
    wanted: ClipInput,
    feature: str,
    spec: FeatureSpec,
    axis: Axis,
    chosen: list[_Chosen],
    mask: MaskRule,
    sound: IndexedSound | None,
    speakers: Speakers | None,
) -> InputReader:
    _check_clock(feature, spec, axis)
    finder: RowFinder
    device = source.clock(wanted.track)
    if axis is Axis.AUDIO_FRAME:
        finder = sound or timed_sound(source.store, source.index, feature, device)
    elif axis is Axis.WORD:
        finder = WordsStarting(feature, device)
    else:
        finder = UtterancesOverlapping(feature, device)
    finder = RowsOfSpeakers(finder, speakers) if speakers else finder
    longest = finder.longest(source.store, source.index)
    return PaddedRows(wanted.field, feature, _parts(chosen, longest), mask, finder)


def _parts(chosen: list[_Chosen], rows: int) -> tuple[RowPart, ...]:
    return tuple(RowPart(one.field, one.shaped(rows), one.array, one.pieces, one.spec.fill) for one in chosen)
