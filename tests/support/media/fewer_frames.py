"""A study of the same recordings with fewer frames, for tests that are not about how many there are."""

from __future__ import annotations

import csv
import gzip
import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av


def keep_every(study: Path, step: int) -> None:
    """Keep every ``step``-th frame of a study's videos and of what OpenFace wrote of them; sound and times stay."""
    for video in (study / "videos").iterdir():
        _thin_video(video, step)
    for table in (study / "openface").iterdir():
        _thin_table(table, step)


def _thin_video(path: Path, step: int) -> None:
    whole = path.rename(path.with_name(f"whole-{path.name}"))
    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        pictures, sound = source.streams.video[0], source.streams.audio[0]
        rate = Fraction(pictures.average_rate or 1) / step
        video: Any = target.add_stream("mpeg4", rate=rate)
        video.width, video.height, video.pix_fmt = pictures.width, pictures.height, "yuv420p"
        video.codec_context.time_base = 1 / rate
        audio = target.add_stream_from_template(sound)
        for number, frame in enumerate(source.decode(pictures)):
            if number % step == 0:
                frame.pts, frame.time_base = number // step, 1 / rate
                frame.pict_type = av.video.frame.PictureType.NONE  # the encoder chooses
                target.mux(video.encode(frame))
        target.mux(video.encode(None))
        source.seek(0)
        for packet in source.demux(sound):
            if packet.dts is not None:
                packet.stream = audio
                target.mux(packet)
    whole.unlink()


def _thin_table(path: Path, step: int) -> None:
    names, *rows = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
    kept = [[str(number), *row[1:]] for number, row in enumerate(rows[::step], 1)]  # the first column is the frame's
    lines = (",".join(row) for row in (names, *kept))
    path.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
