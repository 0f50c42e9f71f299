"""Recordings of sound and pictures that a test decides."""

from __future__ import annotations

import wave
from collections.abc import Collection
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

FPS = 25
LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1"}


def write_wave(path: Path, samples: np.ndarray, rate: int) -> Path:
    """A WAV file of (n,) or (n, channels) samples of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1] if samples.ndim == 2 else 1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def write_recording(
    path: Path,
    frames: int,
    sound: np.ndarray | None = None,
    rate: int = 16_000,
    *,
    picture_at_s: float = 0.0,
    sound_at_s: float = 0.0,
    codec: str = "pcm_s16le",
) -> Path:
    """A video of ``frames`` frames; picture and (n, channels) int16 sound begin at these times of its container."""
    with av.open(str(path), "w") as container:
        picture: Any = container.add_stream("mpeg4", rate=FPS)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        picture.codec_context.time_base = Fraction(1, 1000)
        if sound is not None:
            track: Any = container.add_stream(codec, rate=rate, layout=LAYOUTS[sound.shape[1]])
            track.codec_context.time_base, track.bit_rate = Fraction(1, rate), 64_000
        for number in range(frames):
            image = np.full((48, 64, 3), 3 * number % 256, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts = round(1000 * (picture_at_s + number / FPS))
            frame.time_base = Fraction(1, 1000)
            container.mux(picture.encode(frame))
        container.mux(picture.encode(None))
        if sound is not None:
            for first in range(0, len(sound), 1024):
                piece = np.ascontiguousarray(sound[first : first + 1024].astype(np.int16).reshape(1, -1))
                block = av.AudioFrame.from_ndarray(piece, format="s16", layout=LAYOUTS[sound.shape[1]])
                block.sample_rate, block.time_base = rate, Fraction(1, rate)
                block.pts = round(sound_at_s * rate) + first
                container.mux(track.encode(block))
            container.mux(track.encode(None))
    return path


def with_damaged_sound(whole: Path, path: Path, numbers: Collection[int]) -> tuple[int, ...]:
    """A copy of a recording, in which the content of the sound packets of these numbers is lost.

    Returns:
        How many samples each packet of the sound has.
    """
    lengths: list[int] = []
    with av.open(str(whole)) as container, av.open(str(path), "w") as copy:
        targets = {stream.index: copy.add_stream_from_template(stream) for stream in container.streams}
        packet: Any
        for packet in container.demux():
            if not packet.size:
                continue
            written: Any = packet
            if packet.stream.type == "audio":
                if len(lengths) in numbers:
                    written = av.Packet(bytes(packet.size))
                    written.pts, written.dts, written.time_base = packet.pts, packet.dts, packet.time_base
                    written.duration, written.is_keyframe = packet.duration, True
                lengths.append(round(packet.duration * packet.time_base * packet.stream.rate))
            written.stream = targets[packet.stream.index]
            copy.mux(written)
    return tuple(lengths)


def write_streams(path: Path, sounds: dict[str, np.ndarray], pictures: int = 1) -> Path:
    """Two seconds with so many streams of pictures, and sounds of 16 kHz: (n, channels) by their language."""
    with av.open(str(path), "w") as container:
        videos: list[Any] = [container.add_stream("mpeg4", rate=10) for _ in range(pictures)]
        stream: Any
        for stream in videos:
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        tracks: list[tuple[Any, np.ndarray]] = []
        for language, sound in sounds.items():
            track: Any = container.add_stream("pcm_s16le", rate=16_000, layout=LAYOUTS[sound.shape[1]])
            track.metadata["language"] = language
            tracks.append((track, sound))
        for number in range(20):
            for stream in videos:
                frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number, np.uint8), "rgb24")
                frame.pts = number
                container.mux(stream.encode(frame))
        for stream in videos:
            container.mux(stream.encode(None))
        for track, sound in tracks:
            packed = np.ascontiguousarray(sound.astype(np.int16)).reshape(1, -1)
            block = av.AudioFrame.from_ndarray(packed, format="s16", layout=LAYOUTS[sound.shape[1]])
            block.sample_rate = 16_000
            container.mux(track.encode(block))
            container.mux(track.encode(None))
    return path


def write_two_cameras(folder: Path, sounds: dict[str, np.ndarray] | None = None) -> tuple[Path, Path]:
    """``both.mkv`` with two pictures of other sizes, lengths and starts, and ``second.mkv`` with the second alone.

    Both have these sounds of 16 kHz, which begin at second 0 of the container, as the first picture does.
    """
    draw = np.random.default_rng(3)
    first = draw.integers(0, 255, (20, 48, 64, 3), np.uint8)
    second = draw.integers(0, 255, (9, 32, 80, 3), np.uint8)
    write_videos(folder / "both.mkv", [(first, 0, 100), (second, 300, 200)], sounds or {})
    write_videos(folder / "second.mkv", [(second, 300, 200)], sounds or {})
    return folder / "both.mkv", folder / "second.mkv"


def write_videos(path: Path, videos: list[tuple[np.ndarray, int, int]], sounds: dict[str, np.ndarray]) -> None:
    """Pictures (T, height, width, 3) without loss, each video with its start and its step in milliseconds."""
    with av.open(str(path), "w") as container:
        streams: list[Any] = []
        tracks: list[tuple[Any, np.ndarray]] = []
        for pictures, _, step in videos:
            stream: Any = container.add_stream("ffv1", rate=Fraction(1000, step))
            stream.height, stream.width, stream.pix_fmt = *pictures.shape[1:3], "bgr0"
            stream.codec_context.time_base = Fraction(1, 1000)
            streams.append(stream)
        for language, sound in sounds.items():
            track: Any = container.add_stream("pcm_s16le", rate=16_000, layout=LAYOUTS[sound.shape[1]])
            track.metadata["language"] = language
            tracks.append((track, sound))
        for stream, (pictures, start, step) in zip(streams, videos, strict=True):
            for number, picture in enumerate(pictures):
                frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="bgr0")
                frame.pts, frame.time_base = start + step * number, Fraction(1, 1000)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        for track, sound in tracks:
            packed = np.ascontiguousarray(sound.astype(np.int16)).reshape(1, -1)
            block = av.AudioFrame.from_ndarray(packed, format="s16", layout=LAYOUTS[sound.shape[1]])
            block.sample_rate = 16_000
            container.mux(track.encode(block))
            container.mux(track.encode(None))


def write_video(path: Path, codec: str, milliseconds: list[int], size: tuple[int, int] = (64, 48)) -> Path:
    """A video whose frames are shown at these times; frame i is of grey level 4 i."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=15)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(milliseconds):
            frame = av.VideoFrame.from_ndarray(np.full((size[1], size[0], 3), 4 * number % 256, np.uint8), "rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
