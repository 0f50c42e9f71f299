"""Opening a recording, and which picture and which sound of it are read.

Only files that contain their own picture and sound are opened, nothing that refers to other files.

This room imports PyAV and OpenCV in functions: planning reads no recording whose features are there, and they take a
seventh of a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from storyframes.store.storage import may_pass

if TYPE_CHECKING:
    import av

# Containers of one file. A playlist (HLS, ffconcat, DASH, SDP, a pattern of images, a script) names other files or
# addresses, so anyone who may add a video to a study could read other files through it; none of them is listed here.
_VIDEO = "avi,mov,mp4,matroska,webm,mpegts,mpeg,asf,flv,ogg,dv,mxf,gxf,nut,wtv,rm,yuv4mpegpipe"
_SOUND = "wav,w64,aiff,au,caf,flac,mp3,aac,ac3,eac3,amr,wv,tta,ape,mpc,mpc8,dsf"
FORMATS = f"{_VIDEO},{_SOUND}"
_OPTIONS = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}

_T = TypeVar("_T")
_END = object()


class RecordingError(Exception):
    """The recording cannot be read; the message names the file and what is wrong with it."""


class PictureError(RecordingError):
    """A frame decodes, so its time is known, and its picture cannot be made."""


@dataclass(frozen=True)
class StreamChoice:
    """Which picture and which sound of a file that has several are read, each counted from 0.

    A file with one picture or one sound has no choice of it.
    """

    video: int = 0
    sound: int = 0

    FIRST: ClassVar[StreamChoice]

    def settings(self, *, with_picture: bool = True) -> dict[str, int]:
        """The settings of ``[recording]`` that choose them, without those that have their default, 0.

        Args:
            with_picture: whether the picture counts; the times of a video's own sound count from its first frame.
        """
        chosen = {"video_stream": self.video if with_picture else 0, "sound_stream": self.sound}
        return {name: number for name, number in chosen.items() if number}

    def are_first(self, path: Path) -> bool:
        """Whether the chosen picture and sound are the file's first, which other programs take by themselves.

        Raises:
            RecordingError: FFmpeg cannot read it.
        """
        with open_container(path) as container:
            videos, sounds = video_streams(container), container.streams.audio
            return not (self.video and len(videos) > 1) and not (self.sound and len(sounds) > 1)


FIRST_STREAMS = StreamChoice.FIRST = StreamChoice()


def video_streams(container: av.container.InputContainer) -> list[av.VideoStream]:
    """The videos of a file: the cover picture of a sound file, or of a film, is not one."""
    from av.stream import Disposition

    return [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]


def chosen_video(container: av.container.InputContainer, name: str, streams: StreamChoice) -> av.VideoStream:
    """The video that is read of a file.

    Raises:
        RecordingError: there is no video, or of several none with this number.
    """
    videos = video_streams(container)
    if not videos:
        raise RecordingError(f"{name}: has no video stream")
    if len(videos) > 1 and streams.video >= len(videos):
        raise RecordingError(
            f"{name}: has the video streams 0 to {len(videos) - 1}, and [recording] video_stream = {streams.video}: "
            "'storyframes check' names them"
        )
    return videos[streams.video if len(videos) > 1 else 0]


def open_container(path: Path) -> av.container.InputContainer:
    """Open a recording or a sound file. Every part of storyframes that opens one does it here.

    Raises:
        RecordingError: it cannot be read, is empty, is no media file, or refers to other files.
    """
    import av

    try:
        if path.stat().st_size == 0:
            raise RecordingError(f"{path.name}: the file is empty (0 bytes)")
        return av.open(str(path.absolute()), metadata_errors="replace", container_options=_OPTIONS)
    except av.ArgumentError:
        raise RecordingError(
            f"{path.name}: is a playlist, a list of images or of another kind that is not read: such a file can "
            "refer to others; a recording is one file (AVI, MP4, Matroska, MPEG, WMV, DV, WAV, FLAC, ...)"
        ) from None
    except (av.FFmpegError, OSError) as error:
        is_content = isinstance(error, av.FFmpegError) and not may_pass(error)
        why = "is not a media file that FFmpeg can read" if is_content else f"cannot be read: {error.strerror}"
        raise RecordingError(f"{path.name}: {why}") from None


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
