"""One pass over a video's frames for every feature that wants them: decoding is paid once.

``FrameExtractor`` is what such a feature is made of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ExtractionError, Extractor, Input, S, Source
from tasks.extractors.frames import note_interlaced, read_clock
from tasks.extractors.regions import begin_region
from tasks.media.container import RecordingError, read_ahead
from tasks.media.recording import DEINTERLACING, FrameBatch, read_frames
from tasks.media.region import RegionView

BATCH_FRAMES = 8  # decoded at once; what goes through a network at once is its own affair
_BATCHES_AHEAD = 2


class FrameConsumer(Protocol):
    """A feature in the making, fed with all frames in order."""

    on_gpu: bool  # its model computes on a GPU, which leaves a processor free to decode ahead of it

    def add(self, batch: FrameBatch) -> None:
        """Take the next frames; the batch is shared with others and must not be changed."""

    def finish(self) -> None:
        """There are no more frames: write what is still under way."""


class FrameExtractor(Extractor[S]):
    """A feature with a row for each video frame: ``spec``, ``version`` and :meth:`rows` are all it needs.

    Features of this kind share one pass over the decoded frames. What they get are the frames of the session's clock:
    right side up, deinterlaced, RGB.

    Example:
        >>> import numpy as np
        >>> from storyframes.features import ArraySpec, Axis, FeatureSpec
        >>> class Brightness(FrameExtractor):
        ...     spec = FeatureSpec("brightness", "mean pixel", {"values": ArraySpec(Axis.FRAME, "float32", "0..255")})
        ...     version = 1
        ...
        ...     def rows(self, batch):
        ...         return batch.rgb.mean(axis=(1, 2, 3))
    """

    inputs: tuple[str, ...] = (Input.VIDEO,)
    libraries: ClassVar[tuple[str, ...]] = ("opencv-python-headless", "av")

    @property
    def sees_pictures(self) -> bool:
        """It is fed with nothing else, even if it says that it can do without."""
        return True

    def rows(self, batch: FrameBatch) -> np.ndarray | Mapping[str, np.ndarray]:
        """The rows of the next frames, in order.

        Args:
            batch: ``rgb`` (n, height, width, 3) uint8, to be left as it is, of a region of a picture not contiguous;
                ``time`` (n,) seconds; ``first``, the number of its first frame; ``previous``, the frame before that,
                None at the beginning; ``seen``, of a region, (n,) bool whether it shows somebody: it is black
                elsewhere, and rows are masked.

        Returns:
            (n, …) rows of the array ``values``, or of several arrays by name.

        Raises:
            ExtractionError: these frames cannot become the feature.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither rows() nor open()")

    def open(self, source: Source, out: FeatureWriter) -> FrameConsumer:
        """Begin the feature: load the model, open the arrays. To be replaced where :meth:`rows` is not enough.

        Raises:
            ExtractionError: the model cannot be loaded.
        """
        return _RowsWriter(self, out)

    def close(self) -> None:
        """The pass is over, however it ended: let go of what :meth:`open` began, a program outside for example."""

    def extract(self, source: Source, out: FeatureWriter) -> None:
        """A pass of its own, where no other feature shares it.

        Raises:
            ExtractionError: the frames or the feature failed.
        """
        (failure,) = run_frame_pass({self: (source, out)}).values()
        if failure is not None:
            raise failure


class _RowsWriter:
    """Appends what ``rows`` gives."""

    on_gpu = False

    def __init__(self, extractor: FrameExtractor[Any], out: FeatureWriter) -> None:
        self._extractor = extractor
        self._out = out
        self._previous: np.ndarray | None = None
        self._writers: dict[str, ShardWriter] = {}

    def add(self, batch: FrameBatch) -> None:
        found = self._extractor.rows(replace(batch, previous=self._previous))
        arrays = found if isinstance(found, Mapping) else {"values": found}
        if unknown := arrays.keys() - self._extractor.spec.arrays.keys():
            which = "an array" if self._extractor.is_private else f"the array {min(unknown)!r},"  # words may name it
            raise ExtractionError(
                f"{self._extractor.name}: rows() gave {which} which its spec does not have; it has "
                f"{_listed(self._extractor.spec.arrays)}"
            )
        if self._writers and arrays.keys() != self._writers.keys():
            raise ExtractionError(
                f"{self._extractor.name}: frame {batch.first}: rows() gave {_listed(arrays)}, but before "
                f"{_listed(self._writers)}: every batch needs the same arrays"
            )
        for name, rows in arrays.items():
            self._append(name, np.asarray(rows), batch)
        self._previous = batch.rgb[-1].copy()

    def _append(self, name: str, rows: np.ndarray, batch: FrameBatch) -> None:
        spec = self._extractor.spec.arrays[name]
        expected = (len(batch), *spec.shape)
        if rows.shape != expected:
            raise ExtractionError(
                f"{self._extractor.name}: frame {batch.first}: rows() gave {name} of shape {rows.shape}, which must be "
                f"{expected}: one row for each of the frames"
            )
        if name not in self._writers:
            self._writers[name] = self._out.array(name)
        self._writers[name].append(rows)

    def finish(self) -> None:
        """Nothing is kept back."""


def contained(error: BaseException) -> Exception:
    """What an extractor raised, as an error of its own feature: a plug-in that ends the process ends nobody else's.

    In the main thread that is left to go on, as what a signal's handler raised may arrive anywhere there.
    """
    if isinstance(error, Exception):
        return error
    if threading.current_thread() is threading.main_thread():
        raise error
    return RuntimeError("it tried to end the process").with_traceback(error.__traceback__)


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"


def run_frame_pass(
    features: Mapping[FrameExtractor[Any], tuple[Source, FeatureWriter]],
) -> dict[FrameExtractor[Any], Exception | None]:
    """Decode a session's video once and feed every feature with its frames, or with a region of them.

    A feature that fails leaves the pass; the others go on.

    Args:
        features: with the files and the writer of each; all of one video, of whose picture the tracks may be regions.

    Returns:
        What went wrong with each feature, None where nothing did.
    """
    failures: dict[FrameExtractor[Any], Exception | None] = dict.fromkeys(features)
    consumers: dict[FrameExtractor[Any], FrameConsumer] = {}
    views: dict[str, RegionView | None] = {}
    frames = 0
    try:
        for extractor, (source, out) in features.items():
            try:
                clock = read_clock(source, out)
                views[source.track] = begin_region(extractor, source, out) if source.region else None
                consumers[extractor] = extractor.open(source, out)
                frames = len(clock)  # the same for all
                note_interlaced(clock, out)
                if clock.interlaced:
                    out.attributes["deinterlacing"] = DEINTERLACING
            except BaseException as error:
                failures[extractor] = contained(error)
        if consumers:
            tracks = {extractor: source.track for extractor, (source, _) in features.items()}
            _feed(next(source for source, _ in features.values()), frames, consumers, tracks, views, failures)
    except Exception as error:  # the video itself: it concerns all that are still at it
        failures |= dict.fromkeys(consumers if consumers else failures, error)
    finally:
        for extractor in features:
            extractor.close()
    return failures


def _feed(
    source: Source,
    frames: int,
    consumers: dict[FrameExtractor[Any], FrameConsumer],
    tracks: Mapping[FrameExtractor[Any], str],
    views: Mapping[str, RegionView | None],
    failures: dict[FrameExtractor[Any], Exception | None],
) -> None:
    def each(step: Callable[[FrameConsumer, str], None]) -> None:
        for extractor, consumer in list(consumers.items()):
            try:
                step(consumer, tracks[extractor])
            except BaseException as error:
                failures[extractor] = contained(error)
                del consumers[extractor]

    rows = 0
    try:
        for batch in _batches(source, consumers):
            rows += len(batch)
            if rows > frames:
                break
            shown = {track: _seen_by(views[track], batch) for track in {tracks[extractor] for extractor in consumers}}
            each(lambda consumer, track, shown=shown: consumer.add(shown[track]))  # type: ignore[misc]
            if not consumers:
                return
    except RecordingError as error:
        raise ExtractionError(str(error)) from None
    if rows != frames:
        rows_decoded = f"{rows} frames" if rows < frames else f"more than {frames} frames"
        raise ExtractionError(f"{rows_decoded} decoded, but the session's clock has {frames}: extract it again")
    each(lambda consumer, _: consumer.finish())


def _seen_by(view: RegionView | None, batch: FrameBatch) -> FrameBatch:
    return batch if view is None else view.cut(batch)


def _batches(source: Source, consumers: Mapping[FrameExtractor[Any], FrameConsumer]) -> Iterator[FrameBatch]:
    """The frames; decoded in a thread of its own only where a GPU computes, as otherwise every processor is busy."""
    allow_truncated = next(iter(consumers)).common.recording.allow_truncated
    batches = read_frames(source.file(Input.VIDEO).path, BATCH_FRAMES, allow_truncated=allow_truncated)
    return read_ahead(batches, _BATCHES_AHEAD) if any(c.on_gpu for c in consumers.values()) else batches
