"""One pass over a video's frames for every feature that wants them: decoding is paid once.

``FrameExtractor`` is what such a feature is made of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ExtractionError, Extractor, Input, S, Source
from tasks.extractors.frames import FrameClock, note_interlaced
from tasks.extractors.regions import begin_region, note_wide_colours
from tasks.extractors.settings import Hdr
from tasks.media.container import PictureError, RecordingError, read_ahead
from tasks.media.recording import DEINTERLACING, FrameBatch, FrameTimes, RecordingReader
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
    needs_clock: ClassVar[bool] = False
    """Whether :meth:`open` reads the published frame times. Where it does not, one pass makes them and the feature."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        decides = next(base for base in cls.__mro__ if {"open", "needs_clock"} & vars(base).keys())
        if "needs_clock" not in vars(decides):  # an open() that does not say that it needs none, also of a mixin
            cls.needs_clock = True

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
        """The pass is over, however it ended: release what :meth:`open` began, an external program for example."""

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
        made = self._extractor.rows(replace(batch, previous=self._previous))
        arrays = made if isinstance(made, Mapping) else {"values": made}
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
    publish_clock: Callable[[FrameTimes | Exception | None], None] | None = None,
) -> dict[FrameExtractor[Any], Exception | None]:
    """Decode a session's video once and feed every feature with its frames, or with a region of them.

    A feature that fails leaves the pass; the others go on. Each batch is given to one feature after the other before
    the next is decoded, so that memory does not depend on how slow a feature is.

    Args:
        features: with the files and the writer of each; all of one video, of whose picture the tracks may be regions.
        publish_clock: called once, before any feature ends, with the times of all frames or with why there are none,
            where the session's clock is made by this pass; with None where pictures cannot be made and the pass ended
            before the last frame, so that the times have to be read. None where the clock is published already.

    Returns:
        What went wrong with each feature, None where nothing did.
    """
    frame_pass = _FramePass(features, publish_clock)
    try:
        frame_pass.run()
    except Exception as error:  # the video itself: it concerns all that are still at it
        frame_pass.fail_all(error)
    finally:
        for extractor in features:
            extractor.close()
    return frame_pass.failures


@dataclass(frozen=True)
class _Member:
    """A feature that is still in the pass."""

    source: Source
    out: FeatureWriter
    consumer: FrameConsumer


class _FramePass:
    def __init__(
        self,
        features: Mapping[FrameExtractor[Any], tuple[Source, FeatureWriter]],
        publish_clock: Callable[[FrameTimes | Exception | None], None] | None,
    ) -> None:
        self.failures: dict[FrameExtractor[Any], Exception | None] = dict.fromkeys(features)
        self._features = features
        self._publish_clock = publish_clock
        self._members: dict[FrameExtractor[Any], _Member] = {}
        self._views: dict[str, RegionView | None] = {}
        self._frames: int | None = None  # of the session's clock; None until it is published

    def run(self) -> None:
        for extractor, (source, out) in self._features.items():
            try:
                if self._publish_clock is None:
                    self._note_clock(source, out)
                self._views[source.track] = begin_region(extractor, source, out) if source.region else None
                self._members[extractor] = _Member(source, out, extractor.open(source, out))
            except BaseException as error:
                self.failures[extractor] = contained(error)
        if self._members or self._publish_clock:
            self._decode()

    def fail_all(self, error: Exception) -> None:
        left = self._members or [extractor for extractor, failure in self.failures.items() if failure is None]
        self.failures |= dict.fromkeys(left, error)

    def _decode(self) -> None:
        extractor, (source, _) = next(iter(self._features.items()))
        settings = extractor.common.recording
        reader = RecordingReader(
            source.file(Input.VIDEO).path,
            BATCH_FRAMES,
            allow_truncated=settings.allow_truncated,
            map_colours=settings.hdr is Hdr.MAPPED,
            streams=settings.streams,
        )
        try:
            rows = self._feed(reader)
        except PictureError as error:
            if self._publish_clock:
                self._publish_clock(None)
            raise ExtractionError(str(error)) from None
        except RecordingError as error:
            failure = ExtractionError(str(error))
            if self._publish_clock:
                self._publish_clock(failure)
                failure = ExtractionError(f"needs the frame times: {error}")
            raise failure from None
        except Exception:  # no memory for the pictures, for example
            if self._publish_clock:
                self._publish_clock(None)
            raise
        if self._publish_clock:
            self._publish_clock(reader.times)
            self._each(lambda member: self._note_clock(member.source, member.out))
        if self._members and rows != self._frames:
            decoded = f"{rows} frames" if rows < (self._frames or 0) else f"more than {self._frames} frames"
            raise ExtractionError(f"{decoded} decoded, but the session's clock has {self._frames}: extract it again")
        if reader.has_wide_colours:
            self._each(lambda member: note_wide_colours(settings, member.out))
        self._each(lambda member: member.consumer.finish())

    def _feed(self, reader: RecordingReader) -> int:
        """Give every batch to the features; how many frames they have seen."""
        rows = 0
        reader.wants_pictures = bool(self._members)
        for batch in self._batches(reader):
            rows += len(batch)
            if self._frames is not None and rows > self._frames:
                break
            tracks = {member.source.track for member in self._members.values()}
            shown = {track: _seen_by(self._views[track], batch) for track in tracks}
            self._each(lambda member, shown=shown: member.consumer.add(shown[member.source.track]))  # type: ignore[misc]
            if not self._members:
                if self._publish_clock is None:
                    break
                reader.wants_pictures = False
        return rows

    def _batches(self, reader: RecordingReader) -> Iterator[FrameBatch]:
        """The frames; decoded in a thread of its own only where a GPU computes, as else every processor is busy."""
        on_gpu = any(member.consumer.on_gpu for member in self._members.values())
        return read_ahead(reader.batches(), _BATCHES_AHEAD) if on_gpu else reader.batches()

    def _each(self, step: Callable[[_Member], None]) -> None:
        for extractor, member in list(self._members.items()):
            try:
                step(member)
            except BaseException as error:
                self.failures[extractor] = contained(error)
                del self._members[extractor]

    def _note_clock(self, source: Source, out: FeatureWriter) -> None:
        clock = FrameClock.read(source, out)
        note_interlaced(clock, out)
        if clock.interlaced:
            out.attributes["deinterlacing"] = DEINTERLACING
        self._frames = len(clock)  # the same for all


def _seen_by(view: RegionView | None, batch: FrameBatch) -> FrameBatch:
    return batch if view is None else view.cut(batch)
