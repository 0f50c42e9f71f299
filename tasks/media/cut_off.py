"""Whether a file ends before its own container does: what is left of a copy that broke off, whatever still decodes.

AVI, Matroska and MP4 write the length of their parts into the file; only these numbers are read here.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def missing_bytes(path: Path) -> int:
    """How many bytes the file is shorter than its container says; 0 where it is whole, or where that is not said."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] == b"RIFF":
            end = _end_of_riff(file, size)
        elif head[:4] == _EBML:
            end = _end_of_segment(file)
        elif head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
            end = _end_of_boxes(file, size)
        else:
            end = 0
    return max(end - size, 0)


def _end_of_riff(file: BinaryIO, size: int) -> int:
    """An AVI is one RIFF chunk, or several where it is larger than a gigabyte."""
    position = 0
    while position < size:
        file.seek(position)
        head = file.read(8)
        if head[:4] != b"RIFF" or len(head) < 8:
            break  # something else behind a whole AVI
        position += 8 + int.from_bytes(head[4:8], "little")
    return position


def _end_of_segment(file: BinaryIO) -> int:
    """A Matroska file is an EBML header and one segment; a segment that was recorded live has no length."""
    file.seek(4)
    header = _read_length(file)
    if header is None:
        return 0
    file.seek(header, 1)
    if file.read(4) != _SEGMENT:
        return 0
    length = _read_length(file)
    return 0 if length is None else file.tell() + length


def _read_length(file: BinaryIO) -> int | None:
    """EBML's number of variable length; None where all its bits are set, which means that nothing is said."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    bits = 7 * (more + 1)
    value = int.from_bytes(first + file.read(more), "big") & ((1 << bits) - 1)
    return None if value == (1 << bits) - 1 else value


def _end_of_boxes(file: BinaryIO, size: int) -> int:
    """An MP4 is a row of boxes; one of length 0 goes to the end of the file."""
    position = 0
    while position + 8 <= size:
        file.seek(position)
        head = file.read(16)
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            break
        position += length
    return position
