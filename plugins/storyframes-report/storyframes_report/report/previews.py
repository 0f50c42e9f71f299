"""Recordings that every browser plays: small copies in H.264 and AAC with the same times.

They are recordings of people, so they are written only where the user asks, readable by the owner alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from heapq import merge
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from storyframes.store import lock_new_file
from tasks.media import NoAudioError, RecordingError, StreamChoice, read_audio, read_frames, read_header

_LONGEST_SIDE = 640  # pixels
_SOUND_RATE = 48_000
_CLOCK = Fraction(1, 90_000)  # s, of the frames' times in the copy
_OPTIONS = {"preset": "veryfast", "crf": "28", "g": "30", "bf": "0"}  # a key frame a second or so: seeking is quick


def write_preview(recording: Path, sound: Path | None, out: Path, streams: StreamChoice = StreamChoice.FIRST) -> None:
    """Copy a video's upright pictures, at most 640 pixels, and its sound into an MP4 that begins with the first frame.

    Args:
        recording: the video.
        sound: a file with the sound; None for the video's own, if it has any.
        out: the MP4, mode 0600; an older one is kept where it was made of the same files.
        streams: which picture and which sound of files that have several.

    Raises:
        RecordingError: the video cannot be read.
        OSError: the copy cannot be written.
    """
    made_of = _made_of([recording, *([sound] if sound else [])], streams)
    if _is_made_of(out, made_of):
        return
    with _reserved(out.with_name(f".{out.name}.tmp")) as unfinished:
        if _is_made_of(out, made_of):
            return
        try:
            with av.open(str(unfinished), "w", format="mp4") as container:
                container.metadata["comment"] = made_of
                _write(container, recording, sound, streams)
            unfinished.replace(out)
        except av.FFmpegError as error:
            if isinstance(error, OSError):
                raise
            raise RecordingError(f"{recording.name}: cannot be copied as H.264 ({error.strerror})") from None


@contextmanager
def _reserved(unfinished: Path) -> Iterator[Path]:
    """The private file under a copy's temporary name; a second report that makes the same copy waits for the first."""
    while True:
        descriptor = os.open(unfinished, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            if not lock_new_file(descriptor) or not _is_open(descriptor, unfinished):
                continue  # the report that had it is done, and the name is another file's or nobody's
            try:
                yield unfinished
            finally:
                if _is_open(descriptor, unfinished):  # else it is the copy by now, and the name may be another's
                    unfinished.unlink()
            return
        finally:
            os.close(descriptor)


def _is_open(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _made_of(sources: list[Path], streams: StreamChoice) -> str:
    """What a copy was made of, for its comment: a session may get another file, and two studies may share a folder."""
    files = [file for source in sources for file in streams.files(source)]
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(states if streams == StreamChoice.FIRST else [states, streams]).encode()).hexdigest()


def _is_made_of(copy: Path, made_of: str) -> bool:
    try:
        with av.open(str(copy)) as container:
            return container.metadata.get("comment", "") == made_of
    except av.FFmpegError:  # also where there is none yet
        return False


def _write(container: av.container.OutputContainer, recording: Path, sound: Path | None, streams: StreamChoice) -> None:
    header = read_header(recording, streams)
    scale = min(1.0, _LONGEST_SIDE / max(header.width, header.height))
    size = [max(2, round(length * scale / 2) * 2) for length in (header.width, header.height)]  # H.264's are even
    video: Any = container.add_stream("libx264", options=_OPTIONS)
    video.width, video.height, video.pix_fmt = *size, "yuv420p"
    video.codec_context.time_base = video.time_base = _CLOCK
    blocks = _sound(sound or recording, None if sound else header.start_s, streams)
    if (first := next(blocks, None)) is not None:
        voice: Any = container.add_stream("aac", rate=_SOUND_RATE, layout="mono")
        blocks = merge(iter([first]), blocks, key=_time)
    for time, content in merge(_pictures(recording, streams), blocks, key=_time):
        if content.ndim == 3:
            small = np.asarray(cv2.resize(content, size, interpolation=cv2.INTER_AREA), np.uint8)
            picture = av.VideoFrame.from_ndarray(small, "rgb24")
            picture.pts, picture.time_base = round(time / _CLOCK), _CLOCK
            container.mux(video.encode(picture))
        else:
            samples = av.AudioFrame.from_ndarray(content[None], "fltp", "mono")
            samples.sample_rate, samples.pts = _SOUND_RATE, round(time * _SOUND_RATE)
            samples.time_base = Fraction(1, _SOUND_RATE)
            container.mux(voice.encode(samples))
    for stream in container.streams:
        container.mux(stream.encode(None))  # type: ignore[attr-defined]  # both are streams that encode


def _time(part: tuple[float, np.ndarray]) -> float:
    return part[0]


def _pictures(recording: Path, streams: StreamChoice) -> Iterator[tuple[float, np.ndarray]]:
    for batch in read_frames(recording, 16, allow_truncated=True, streams=streams):
        yield from zip(batch.time.tolist(), batch.rgb, strict=True)


def _sound(path: Path, zero_s: float | None, streams: StreamChoice) -> Iterator[tuple[float, np.ndarray]]:
    """Blocks of samples (n,) float32 with the second of their first; none from before the first frame."""
    try:
        for block in read_audio(path, _SOUND_RATE, zero_s, streams=streams):
            early = max(0, round(-block.time * _SOUND_RATE))
            if len(samples := np.asarray(block.samples[early:], np.float32)):
                yield max(block.time, 0.0), np.ascontiguousarray(samples)
    except NoAudioError:
        return
