"""Opening a recording: a file that holds its own picture and sound, and nothing that points elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import av

# Containers of one file. A playlist (HLS, ffconcat, DASH, SDP, a pattern of images, a script) names other files or
# addresses, so whoever may add a video to a study could read other files through it; none of them is here.
_VIDEO = "avi,mov,mp4,matroska,webm,mpegts,mpeg,asf,flv,ogg,dv,mxf,gxf,nut,wtv,rm,yuv4mpegpipe"
_SOUND = "wav,w64,aiff,au,caf,flac,mp3,aac,ac3,eac3,amr,wv,tta,ape,mpc,mpc8,dsf"
FORMATS = f"{_VIDEO},{_SOUND}"
_ONLY = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}

# OpenCV opens the file itself, and reads these from here. Damage is counted and reported, not printed by FFmpeg.
os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "|".join(f"{name};{value}" for name, value in _ONLY.items())
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")


class RecordingError(Exception):
    """The recording cannot be read; the message names the file and what is wrong with it."""


def open_container(path: Path) -> av.container.InputContainer:
    """Open a recording or a sound file. Every part of storyframes that opens one does it here.

    Raises:
        RecordingError: it cannot be read, is empty, no media file, or one that refers to other files.
    """
    try:
        if path.stat().st_size == 0:
            raise RecordingError(f"{path.name}: the file is empty (0 bytes)")
        return av.open(str(path.absolute()), metadata_errors="replace", container_options=_ONLY)
    except av.ArgumentError:
        raise RecordingError(
            f"{path.name}: is a playlist, a list of images or of another kind that is not read: such a file can "
            "refer to others; a recording is one file (AVI, MP4, Matroska, MPEG, WMV, DV, WAV, FLAC, ...)"
        ) from None
    except av.FFmpegError:
        raise RecordingError(f"{path.name}: is not a media file that FFmpeg can read") from None
    except OSError as error:
        raise RecordingError(f"{path.name}: cannot be read: {error.strerror}") from None
