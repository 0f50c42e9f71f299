"""One pass over a video's frames for every feature that wants them: decoding is paid once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from storyframes.publish import FeatureWriter
from tasks.extractor import ExtractionError, Extractor, Source
from tasks.frames import RecordingSettings, read_clock
from tasks.recording import FrameBatch, RecordingError, read_frames

BATCH_FRAMES = 8  # frames decoded ahead of the models; what goes through a network at once is its own affair


class FrameConsumer(Protocol):
    """A feature in the making, fed with all frames in order."""

    def add(self, batch: FrameBatch) -> None:
        """Take the next frames; the batch is shared with others and must not be changed."""


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
        clocks = [read_clock(source, out) for out in features.values()]  # the same; each carries its stamp over
        for extractor, out in features.items():
            try:
                consumers[extractor] = extractor.open(source, out)
            except Exception as error:
                failures[extractor] = error
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
    if not consumers:
        return
    allow_truncated = next(iter(consumers)).recording.allow_truncated
    rows = 0
    try:
        for batch in read_frames(source.file("video").path, BATCH_FRAMES, allow_truncated=allow_truncated):
            rows += len(batch)
            for extractor, consumer in list(consumers.items()):
                try:
                    consumer.add(batch)
                except Exception as error:
                    failures[extractor] = error
                    del consumers[extractor]
            if not consumers:
                return
    except RecordingError as error:
        raise ExtractionError(str(error)) from None
    if rows != frames:
        raise ExtractionError(f"{rows} frames decoded, but the session's clock has {frames}: extract it again")
