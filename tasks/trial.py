"""One extractor on one recording, in a store of its own: what ``storyframes.testing`` runs.

It is the entry point ``trial`` of ``storyframes.pipeline``, since the light floor cannot import it.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from storyframes.plug_ins import PlugInError
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter, PublishError
from storyframes.store.records import Status
from storyframes.store.storage import Storage
from storyframes.testing.trial import SESSION, Trial
from storyframes.times import last_frame_end_s
from tasks.extractors.base import (
    CommonSettings,
    ExtractionError,
    Extractor,
    ExtractorSettings,
    InputFile,
    MissingInputError,
    Source,
)
from tasks.extractors.frame_pass import BATCH_FRAMES
from tasks.extractors.plug_ins import check_class
from tasks.extractors.registry import check_name, registered
from tasks.media.container import open_container
from tasks.media.recording import read_frame_times, read_frames
from tasks.media.sound import read_audio, sound_s
from tasks.media.video_header import read_header
from tasks.planning.sources import input_file

_MILLISECOND = Fraction(1, 1000)
_FILLING_FRAMES = 8 * BATCH_FRAMES  # with fewer, buffers and caches are still being filled
_FILLING_S = 8.0


@dataclass(frozen=True)
class _Overheard(Source):
    """A source that notes what is asked of it."""

    asked: set[str] = field(default_factory=set)

    def file(self, kind: str) -> InputFile:
        self.asked.add(str(kind))
        return super().file(kind)


def why_unusable(cls: type[Extractor[Any]]) -> list[str]:
    """What the registry would refuse the class for."""
    try:
        check_class(cls)
        check_name(cls)
    except PlugInError as error:
        return [str(error)]
    return []


def inputs(cls: type[Extractor[Any]], settings: ExtractorSettings) -> tuple[str, ...]:
    """The kinds of input that it declares."""
    return tuple(str(kind) for kind in cls(settings, CommonSettings()).inputs)


def fingerprint(
    cls: type[Extractor[Any]], files: Mapping[str, Path], settings: ExtractorSettings, changed: str = ""
) -> str:
    """The digest of the fingerprint, as if the content of the file ``changed`` were another."""
    return cls(settings.resolved(), CommonSettings()).fingerprint(_source(files, changed)).digest


def try_out(cls: type[Extractor[Any]], files: Mapping[str, Path], settings: ExtractorSettings, store: Path) -> Trial:
    """Extract the feature from these files, and what it needs first, into the store."""
    storage = create_store(store)
    source = _source(files)
    for feature in _before(cls):
        needed = registered()[feature]
        _extract(storage, source, needed(needed.Settings().resolved(), CommonSettings()))
    source.asked.clear()
    return _extract(storage, source, cls(settings.resolved(), CommonSettings()))


def _before(cls: type[Extractor[Any]]) -> Iterator[str]:
    """The features that have to be there first, in the order in which they are extracted."""
    found: dict[str, None] = {}
    for feature in cls.after:
        found |= dict.fromkeys((*_before(registered()[feature]), feature))
    yield from found


def _extract(storage: Storage, source: _Overheard, extractor: Extractor[Any]) -> Trial:
    digest, reason, error, status = "", "", "", Status.FAILED
    caveats: frozenset[str] = frozenset()
    try:
        decided_by = extractor.fingerprint(source)
        digest = decided_by.digest
        with FeatureWriter(storage, SESSION, extractor.spec) as out:
            extractor.extract(source, out)
            caveats = frozenset(out.publish(digest, decided_by.provenance(extractor.libraries)).caveats)
        status = Status.DONE
    except MissingInputError as told:
        status, reason = Status.MISSING, str(told)
    except (ExtractionError, PublishError) as told:
        reason = str(told)
    except Exception as unforeseen:
        reason, error = str(unforeseen), type(unforeseen).__name__
    return Trial(status, reason, error, digest, frozenset(source.asked), caveats)


def _source(files: Mapping[str, Path], changed: str = "") -> _Overheard:
    inputs = {kind: input_file(path) for kind, path in files.items()}
    if changed in inputs:
        other = hashlib.sha256(inputs[changed].sha256.encode()).hexdigest()
        inputs[changed] = replace(inputs[changed], sha256=other)
    return _Overheard(SESSION, inputs)


def times_to_fill(path: Path) -> int:
    """How often the recording has to be repeated until its frames, or its seconds of sound, fill several batches."""
    with open_container(path) as container:
        has_picture = bool(container.streams.video)
    if has_picture:
        return math.ceil(_FILLING_FRAMES / len(read_frame_times(path, allow_truncated=True).time))
    return math.ceil(_FILLING_S / sound_s(path))


def lengthen(path: Path, folder: Path, times: int) -> Path:
    """The same recording ``times`` in a row, decoded and coded again without loss: no container's own times matter."""
    with open_container(path) as container:
        has_picture, rate = bool(container.streams.video), getattr(next(iter(container.streams.audio), None), "rate", 0)
    zero_s = read_header(path).start_s if has_picture else None
    length_s = last_frame_end_s(read_frame_times(path, allow_truncated=True).time) if has_picture else 0.0
    length_s = max(length_s, sound_s(path) if rate else 0.0)
    target = folder / f"{times}-times-{path.stem}.mkv"
    with av.open(str(target), "w") as out:
        picture: Any = None
        sound: Any = out.add_stream("pcm_s16le", rate=rate, layout="mono") if rate else None
        for number in range(times):
            frames = _frames(path, number * length_s) if has_picture else iter(())
            blocks = _blocks(path, rate, zero_s, number * length_s) if rate else iter(())
            both: Iterator[Any] = heapq.merge(frames, blocks, key=lambda media: media.time or 0.0)
            for media in both:
                if isinstance(media, av.AudioFrame):
                    out.mux(sound.encode(media))
                    continue
                if picture is None:
                    picture = out.add_stream("ffv1", rate=25)
                    picture.width, picture.height, picture.pix_fmt = media.width, media.height, "bgr0"
                    picture.codec_context.time_base = _MILLISECOND
                out.mux(picture.encode(media))
        for stream in (picture, sound):
            if stream is not None:
                out.mux(stream.encode(None))
    return target


def _frames(path: Path, start_s: float) -> Iterator[av.VideoFrame]:
    for batch in read_frames(path, 1, allow_truncated=True):
        frame = av.VideoFrame.from_ndarray(batch.rgb[0], "rgb24").reformat(format="bgr0")
        frame.pts, frame.time_base = round(1000 * (start_s + float(batch.time[0]))), _MILLISECOND
        yield frame


def _blocks(path: Path, rate: int, zero_s: float | None, start_s: float) -> Iterator[av.AudioFrame]:
    for block in read_audio(path, rate, zero_s):
        if len(block.samples):
            samples = np.rint(block.samples * 32767).astype(np.int16)[None]
            frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
            frame.pts = max(round((start_s + block.time) * rate), 0)
            yield frame
