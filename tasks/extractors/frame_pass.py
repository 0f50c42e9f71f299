"""One pass over a video's frames for every feature that wants them: decoding is paid once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import ExtractionError, Extractor, Source
from tasks.extractors.frames import RecordingSettings, read_clock
from tasks.media.container import RecordingError
from tasks.media.deinterlace import POLICY as DEINTERLACING
from tasks.media.read_ahead import read_ahead
from tasks.media.recording import FrameBatch, read_frames

BATCH_FRAMES = 8  # decoded at once; what goes through a network at once is its own affair
_BATCHES_AHEAD = 2


class FrameConsumer(Protocol):
    """A feature in the making, fed with all frames in order.

    Attributes:
        on_gpu: its model computes on a GPU, which leaves a processor free to decode ahead of it.
    """

    on_gpu: bool

    def add(self, batch: FrameBatch) -> None:
        """Take the next frames; the batch is shared with others and must not be changed."""

    def finish(self) -> None:
        """There are no more frames: write what is still under way."""


@runtime_checkable
class FrameExtractor(Extractor, Protocol):
    """An extractor that works frame by frame, and so can share a pass with others."""

    recording: RecordingSettings

    def open(self, source: Source, out: FeatureWriter) -> FrameConsumer:
        """Begin the feature: load the model, open the arrays.

        Raises:
            ExtractionError: the model cannot be loaded.
        """


def extract_alone(extractor: FrameExtractor, source: Source, out: FeatureWriter) -> None:
    """What an extractor's ``extract`` does when no other feature shares the pass.

    Raises:
        ExtractionError: the frames or the feature failed.
    """
    (failure,) = run_frame_pass(source, {extractor: out}).values() or (None,)
    if failure is not None:
        raise failure


def run_frame_pass(
    source: Source, features: Mapping[FrameExtractor, FeatureWriter]
) -> dict[FrameExtractor, Exception | None]:
    """Decode the session's video once and feed every feature with it.

    A feature that fails leaves the pass; the others go on.

    Returns:
        What went wrong with each feature, None where nothing did.
    """
    failures: dict[FrameExtractor, Exception | None] = dict.fromkeys(features)
    consumers: dict[FrameExtractor, FrameConsumer] = {}
    try:
        clocks = [read_clock(source, out) for out in features.values()]  # the same; each carries its caveats over
        for extractor, out in features.items():
            try:
                consumers[extractor] = extractor.open(source, out)
                if clocks[0].interlaced:
                    out.attributes["deinterlacing"] = DEINTERLACING
            except Exception as error:
                failures[extractor] = error
        if consumers:
            _feed(source, len(clocks[0]), consumers, failures)
    except Exception as error:  # the video itself: it concerns all that are still at it
        failures |= dict.fromkeys(consumers if consumers else failures, error)
    return failures


def _feed(
    source: Source,
    frames: int,
    consumers: dict[FrameExtractor, FrameConsumer],
    failures: dict[FrameExtractor, Exception | None],
) -> None:
    def each(step: Callable[[FrameConsumer], None]) -> None:
        for extractor, consumer in list(consumers.items()):
            try:
                step(consumer)
            except Exception as error:
                failures[extractor] = error
                del consumers[extractor]

    rows = 0
    try:
        for batch in _batches(source, consumers):
            rows += len(batch)
            each(lambda consumer, batch=batch: consumer.add(batch))  # type: ignore[misc]
            if not consumers:
                return
    except RecordingError as error:
        raise ExtractionError(str(error)) from None
    if rows != frames:
        raise ExtractionError(f"{rows} frames decoded, but the session's clock has {frames}: extract it again")
    each(lambda consumer: consumer.finish())


def _batches(source: Source, consumers: Mapping[FrameExtractor, FrameConsumer]) -> Iterator[FrameBatch]:
    """The frames; decoded in a thread of its own only where a GPU computes, as otherwise every processor is busy."""
    allow_truncated = next(iter(consumers)).recording.allow_truncated
    batches = read_frames(source.file("video").path, BATCH_FRAMES, allow_truncated=allow_truncated)
    return read_ahead(batches, _BATCHES_AHEAD) if any(c.on_gpu for c in consumers.values()) else batches
