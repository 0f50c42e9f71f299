"""Features of a region of another track's picture: which pictures they see, and what becomes of their rows.

A track may be a region of another one's picture. Extractors get pictures of the region alone, of one size
(``tasks/media/region.py``), black where nobody is seen. Whatever they give for such a frame is replaced by the array's
fill value, and points in pixels become pixels of the whole picture, as if the extractor had looked there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.array_roles import IN_REGION
from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes.spec import MAIN_ARRAY
from storyframes.store.description import read_attributes
from storyframes.store.publish import FeatureWriter
from storyframes.store.record_status import read_status
from storyframes.store.records import Caveat
from tasks.extractors.base import ExtractionError, Extractor, Input, Source
from tasks.extractors.frames import FrameClock
from tasks.extractors.settings import Hdr, RecordingSettings
from tasks.media.container import RecordingError
from tasks.media.recording import PictureConverter, file_for_tools
from tasks.media.region import RegionView
from tasks.media.video_header import read_header
from tasks.study.boxes import Boxes, BoxesError

_OF_DETECTIONS = (Axis.FRAME_EDGE, Axis.BODY, Axis.HAND, Axis.FACE)


def region_view(source: Source, out: FeatureWriter, recording: RecordingSettings) -> RegionView | None:
    """The pictures of the source's region; None where its track is no region.

    Args:
        recording: how the video is read.

    Raises:
        ExtractionError: its boxes or the video cannot be read.
    """
    if source.region is None:
        return None
    clock = FrameClock.read(source, out)
    try:
        header = read_header(source.file(Input.VIDEO).path, recording.streams)
        if source.region.box is not None:
            boxes = np.tile(source.region.box, (len(clock), 1))
        else:
            boxes = Boxes.read(source.file(Input.REGION).path).at(clock.time, clock.end_s - clock.time[-1])
        return RegionView(boxes, header.width, header.height, fixed=source.region.box is not None)
    except (RecordingError, BoxesError) as error:
        raise ExtractionError(f"region of {source.region.of!r}: {error}") from None


@contextmanager
def video_for_tool(
    path: Path, view: RegionView | None, recording: RecordingSettings, out: FeatureWriter
) -> Iterator[Path]:
    """The video for a program that opens it, see :func:`~tasks.media.recording.file_for_tools`.

    A copy has the colours that every feature of pictures sees, and the feature the same caveat. Of the file itself the
    program's own decoder shows the colours.

    Args:
        view: the region that the program is to see; None: all.

    Raises:
        RecordingError: see :func:`~tasks.media.recording.file_for_tools`.
    """
    converter = PictureConverter(path.name, map_colours=recording.hdr is Hdr.MAPPED)
    with file_for_tools(path, view.picture if view else None, converter, recording.streams) as video:
        if converter.has_wide_colours:
            note_wide_colours(recording, out)
        elif video == path and read_header(path, recording.streams).has_wide_colours:
            out.caveat(Caveat.TOOL_COLOURS)
        yield video


def note_wide_colours(recording: RecordingSettings, out: FeatureWriter) -> None:
    """A caveat of a feature that was made of pictures in HDR or wide gamut."""
    out.caveat(Caveat.MAPPED_COLOURS if recording.hdr is Hdr.MAPPED else Caveat.CODED_COLOURS)


def region_spec(spec: FeatureSpec, of: str) -> FeatureSpec:
    """The specification of a feature of a region: its pixels are of the whole picture, and it has a mask of frames."""
    arrays: dict[str, ArraySpec] = {}
    for name, array in spec.arrays.items():
        units = re.sub("^pixels( of the frame)?", f"pixels of the whole picture of the track {of!r}", array.units)
        arrays[name] = replace(array, units=units)
    main = arrays.get(MAIN_ARRAY)
    if spec.mask or IN_REGION in arrays or (main is not None and main.axis is not Axis.FRAME):
        return replace(spec, arrays=arrays)
    arrays[IN_REGION] = ArraySpec(Axis.FRAME, "uint8", "1 where the region shows somebody, 0 elsewhere", fill=0)
    return replace(spec, arrays=arrays, mask=IN_REGION)


def begin_region(extractor: Extractor[Any], source: Source, out: FeatureWriter) -> RegionView | None:
    """Prepare the writer for a feature of a region: what its rows become, its mask, attributes and caveats.

    Returns:
        The region's pictures; None where the track is no region, or the feature is not made of pictures.

    Raises:
        ExtractionError: see :func:`region_view`.
    """
    if source.region is None or not extractor.sees_pictures:
        return None
    for name, array in out.spec.arrays.items():
        if array.axis in _OF_DETECTIONS and not extractor.maps_points:
            raise ExtractionError(
                f"{extractor.name} cannot be made of a region: {name} has no row for each frame, and the extractor "
                "does not put its points into the whole picture itself (maps_points)"
            )
        if array.units.startswith("pixels") and array.axis is Axis.FRAME:
            mapped = PixelColumns.of(name, array, extractor.in_pixels)
            if len((*mapped.x, *mapped.y, *mapped.per_pixel)) < np.prod(array.shape, dtype=int):
                raise ExtractionError(
                    f"{extractor.name} cannot be made of a region: {name} is in pixels, and its columns are not x and "
                    "y, nor does the extractor say which of them are (in_pixels)"
                )
    view = region_view(source, out, extractor.common.recording)
    if view is None:
        return None
    if IN_REGION in out.spec.arrays and IN_REGION not in extractor.spec.arrays:
        out.write(IN_REGION, np.asarray(view.seen, np.uint8))
    out.attributes["region"] = {
        "of": source.region.of,
        "box": source.region.box and list(source.region.box),
        "size": list(view.size),
        "pixels": f"points in pixels are of the whole picture of the track {source.region.of!r}; head pose, gaze and "
        "what is in space are of the region's own picture",
    }
    out.quality["seen_in_region"] = float(view.seen.mean())
    note_doubtful(source, out)
    pixels = {
        name: PixelColumns.of(name, array, extractor.in_pixels)
        for name, array in out.spec.arrays.items()
        if array.axis is Axis.FRAME
    }

    def change(name: str, first: int, rows: np.ndarray) -> np.ndarray:
        frames = np.arange(first, min(first + len(rows), len(view.seen)))
        changed = pixels[name].in_whole(rows[: len(frames)], frames, view)
        changed[~view.seen[frames]] = out.spec.arrays[name].fill
        return np.concatenate([changed, rows[len(frames) :]])  # too many rows are refused later

    out.change_rows = change
    return view


def note_doubtful(source: Source, out: FeatureWriter, further: Iterable[tuple[float, float]] = ()) -> None:
    """Note the stretches (from, to, in seconds) in which a region may show somebody else: of its boxes, and further."""
    is_moving = source.region is not None and source.region.box is None
    doubtful = sorted({*(Boxes.read(source.file(Input.REGION).path).doubtful_s if is_moving else ()), *further})
    if doubtful:
        out.caveat(Caveat.DOUBTFUL_REGION)
        out.attributes["doubtful_s"] = [list(stretch) for stretch in doubtful]


def note_doubtful_of(source: Source, out: FeatureWriter, feature: str) -> None:
    """Note the doubtful stretches of a stored feature of which this one is made, beside those of the boxes."""
    entry = read_status(out.storage, source.session_id, feature)
    if entry and (record := entry.record):
        path = f"{source.session_id}/{feature}/{record.version}"
        attributes = read_attributes(out.storage, source.session_id, feature, path)
        note_doubtful(source, out, [(start, end) for start, end in attributes.get("doubtful_s", ())])


@dataclass(frozen=True)
class PixelColumns:
    """Which entries of a flattened row are in pixels."""

    x: tuple[int, ...] = ()
    y: tuple[int, ...] = ()
    per_pixel: tuple[int, ...] = ()  # lengths in pixels

    @classmethod
    def of(cls, name: str, array: ArraySpec, declared: Mapping[str, tuple[str, ...]]) -> PixelColumns:
        """Of an array: all of one with columns x and y in pixels; else what is declared, and x_0, … of ``values``."""
        if array.columns == ("x", "y") and array.units.startswith("pixels"):
            entries = range(int(np.prod(array.shape)))
            return cls(tuple(entries[::2]), tuple(entries[1::2]))
        if len(array.shape) != 1:
            return cls()

        def entries_of(letter: str, kind: str) -> tuple[int, ...]:
            named = declared.get(kind, ())
            return tuple(
                entry
                for entry, column in enumerate(array.columns)
                if column in named or (letter and name == MAIN_ARRAY and re.fullmatch(rf"{letter}_\d+", column))
            )

        return cls(entries_of("x", "x"), entries_of("y", "y"), entries_of("", "length"))

    def in_whole(self, rows: np.ndarray, frames: np.ndarray, view: RegionView) -> np.ndarray:
        """A copy of the rows of these frames, with pixels of the whole picture."""
        is_mapped = self.x or self.y or self.per_pixel
        changed = np.array(rows, np.result_type(rows, np.float32) if is_mapped else rows.dtype)  # no fraction is lost
        flat = changed.reshape(len(rows), -1)
        scale, shift = view.to_whole(frames)
        for axis, entries in enumerate((self.x, self.y)):
            if entries:
                flat[:, entries] = flat[:, entries].astype(np.float64) * scale[:, axis, None] + shift[:, axis, None]
        if self.per_pixel:
            flat[:, self.per_pixel] *= scale.mean(axis=1, keepdims=True)
        return changed
