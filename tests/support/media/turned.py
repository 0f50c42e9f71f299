"""Recordings whose pictures are stored lying or mirrored, with the matrix that says how a player turns them."""

from __future__ import annotations

import struct
from pathlib import Path

from support.media.video_variants import ffmpeg

# The matrix of a track header, by what a player does: a, b, c, d of x' = a x + c y, y' = b x + d y.
MATRICES = {
    "as it is": (1, 0, 0, 1),
    "90": (0, 1, -1, 0),
    "180": (-1, 0, 0, -1),
    "270": (0, -1, 1, 0),
    "mirrored": (-1, 0, 0, 1),
    "upside down": (1, 0, 0, -1),
    "transposed": (0, 1, 1, 0),
    "transposed and turned": (0, -1, -1, 0),
}
TURNED_BY_FFMPEG = {  # filters that do the same to the pixels
    "as it is": "null",
    "90": "transpose=clock",
    "180": "hflip,vflip",
    "270": "transpose=cclock",
    "mirrored": "hflip",
    "upside down": "vflip",
    "transposed": "transpose=cclock_flip",
    "transposed and turned": "transpose=clock_flip",
}
OPPOSITE = {"90": "270", "270": "90"}


def set_matrix(path: Path, matrix: tuple[float, ...]) -> Path:
    """Write a matrix into the header of a MOV's or MP4's one track."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 44
    a, b, c, d = (round(number * 65536) for number in matrix)
    content[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    return path


def record_turned(path: Path, name: str, seconds: float = 1.6) -> Path:
    """One scene of 64 x 48, whatever the orientation in which the camera was held: lossless, with B-frames."""
    upright = path.with_stem(path.stem + "_upright")
    lossless = ("-c:v", "libx264rgb", "-qp", "0", "-bf", "2", "-pix_fmt", "rgb24")
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size=64x48:rate=25:duration={seconds}", *lossless, upright)
    ffmpeg("-i", upright, "-vf", TURNED_BY_FFMPEG[OPPOSITE.get(name, name)], *lossless, path)
    upright.unlink()
    return set_matrix(path, MATRICES[name])
