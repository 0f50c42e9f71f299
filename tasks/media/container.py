"""Opening a recording, and reading a stream ahead of its use.

Only files that contain their own picture and sound are opened, nothing that refers to other files.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import av

# Containers of one file. A playlist (HLS, ffconcat, DASH, SDP, a pattern of images, a script) names other files or
# addresses, so anyone who may add a video to a study could read other files through it; none of them is listed here.
_VIDEO = "avi,mov,mp4,matroska,webm,mpegts,mpeg,asf,flv,ogg,dv,mxf,gxf,nut,wtv,rm,yuv4mpegpipe"
_SOUND = "wav,w64,aiff,au,caf,flac,mp3,aac,ac3,eac3,amr,wv,tta,ape,mpc,mpc8,dsf"
FORMATS = f"{_VIDEO},{_SOUND}"
_OPTIONS = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}

# OpenCV opens the file itself and reads its options from here. Damage is counted and reported, not printed by FFmpeg.
os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "|".join(f"{name};{value}" for name, value in _OPTIONS.items())
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")

_T = TypeVar("_T")
_END = object()


class RecordingError(Exception):
    """The recording cannot be read; the message names the file and what is wrong with it."""


def open_container(path: Path) -> av.container.InputContainer:
    """Open a recording or a sound file. Every part of storyframes that opens one does it here.

    Raises:
        RecordingError: it cannot be read, is empty, is no media file, or refers to other files.
    """
    try:
        if path.stat().st_size == 0:
            raise RecordingError(f"{path.name}: the file is empty (0 bytes)")
        return av.open(str(path.absolute()), metadata_errors="replace", container_options=_OPTIONS)
    except av.ArgumentError:
        raise RecordingError(
            f"{path.name}: is a playlist, a list of images or of another kind that is not read: such a file can "
            "refer to others; a recording is one file (AVI, MP4, Matroska, MPEG, WMV, DV, WAV, FLAC, ...)"
        ) from None
    except av.FFmpegError:
        raise RecordingError(f"{path.name}: is not a media file that FFmpeg can read") from None
    except OSError as error:
        raise RecordingError(f"{path.name}: cannot be read: {error.strerror}") from None


def read_ahead(items: Iterator[_T], depth: int) -> Iterator[_T]:
    """The same items in the same order; a thread reads up to ``depth`` of them while the caller works on one.

    An exception of ``items`` is raised in the place of the item.
    """
    thread = ThreadPoolExecutor(max_workers=1)
    try:
        ahead = deque(thread.submit(next, items, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(thread.submit(next, items, _END))
            yield item  # type: ignore[misc]
    finally:
        thread.shutdown(cancel_futures=True)
