"""Recordings whose pictures are stored lying or mirrored, with the matrix that says how a player turns them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import av
import numpy as np

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


def record_turned(path: Path, name: str, seconds: float = 1.6, primaries: int | None = None) -> Path:
    """One scene of 64 x 48, whatever the orientation in which the camera was held: lossless, with B-frames.

    Args:
        primaries: the code of ITU-T H.273 that the video says of its colours.
    """
    noise = np.random.default_rng(8).integers(0, 256, (12, 16, 3), np.uint8)
    scene = np.kron(noise, np.ones((4, 4, 1), np.uint8))
    turn = _TURNS[OPPOSITE.get(name, name)]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=25, options={"qp": "0", "bf": "2"})
        stream.height, stream.width = turn(scene).shape[:2]
        stream.pix_fmt = "rgb24"
        if primaries is not None:
            stream.codec_context.color_primaries = primaries
        for number in range(round(seconds * 25)):
            picture = np.ascontiguousarray(turn(np.roll(scene, number, axis=1)))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    return set_matrix(path, MATRICES[name])


_TURNS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {  # the same as TURNED_BY_FFMPEG
    "as it is": lambda picture: picture,
    "90": lambda picture: np.rot90(picture, -1),
    "180": lambda picture: picture[::-1, ::-1],
    "270": lambda picture: np.rot90(picture),
    "mirrored": lambda picture: picture[:, ::-1],
    "upside down": lambda picture: picture[::-1],
    "transposed": lambda picture: picture.transpose(1, 0, 2),
    "transposed and turned": lambda picture: np.rot90(picture, -1)[::-1],
}
