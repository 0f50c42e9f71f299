"""Opening a recording, and which picture and which sound of it are read.

A recording is one file, or several that follow each other, whose names are joined in the last part of its path:
``media/a.mp4+b.mp4``. What opens such a path gets the packets of all files on one clock, the first file's.

Only files that contain their own picture and sound are opened, nothing that refers to other files.

This room imports PyAV and OpenCV in functions: planning reads no recording whose features are there, and they take a
seventh of a second.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

from storyframes.store.storage import may_pass

if TYPE_CHECKING:
    import av

# Containers of one file. A playlist (HLS, ffconcat, DASH, SDP, a pattern of images, a script) names other files or
# addresses, so anyone who may add a video to a study could read other files through it; none of them is listed here.
_VIDEO = "avi,mov,mp4,matroska,webm,mpegts,mpeg,asf,flv,ogg,dv,mxf,gxf,nut,wtv,rm,yuv4mpegpipe"
_SOUND = "wav,w64,aiff,au,caf,flac,mp3,aac,ac3,eac3,amr,wv,tta,ape,mpc,mpc8,dsf"
FORMATS = f"{_VIDEO},{_SOUND}"
_OPTIONS = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}

VIDEO_SUFFIXES = ".mp4 .mov .m4v .avi .mkv .webm .mpg .mpeg .mts .m2ts .ts .wmv .dv .flv .ogv .mxf .3gp".split()
SOUND_SUFFIXES = ".wav .m4a .mp3 .flac .ogg .oga .opus .aac .aif .aiff .amr .wma .caf .w64 .au".split()
_SEAM = re.compile(rf"({'|'.join(map(re.escape, [*VIDEO_SUFFIXES, *SOUND_SUFFIXES]))})\+", re.IGNORECASE)
_SOUGHT = ("mov,", "matroska,")  # formats in which seeking keeps the times of packets
_SKIPPED: Literal["skip_samples"] = (
    "skip_samples"  # FFmpeg's name for data of a packet: how many samples a player skips
)
_NEVER_CUT = ("vorbis", "opus")  # codecs of which each file begins with an encoding of its own
_TAIL_US = 10_000_000  # of a file, in which the ends of its picture and sound are looked for first

_T = TypeVar("_T")
_S = TypeVar("_S", bound="av.stream.Stream")
_END = object()


OpenRecording: TypeAlias = "av.container.InputContainer | JoinedFiles"


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

    @staticmethod
    def files(path: Path) -> list[Path]:
        """The files of the recording of which this is chosen, see :func:`recording_files`."""
        return recording_files(path)

    @staticmethod
    def state(path: Path) -> tuple[int, int]:
        """Bytes and modification time of the recording, see :func:`recording_state`."""
        return recording_state(path)

    def are_first(self, path: Path) -> bool:
        """Whether the chosen picture and sound are the first of one file, which other programs take by themselves.

        Raises:
            RecordingError: FFmpeg cannot read it.
        """
        with open_container(path) as container:
            if isinstance(container, JoinedFiles):
                return False
            videos, sounds = video_streams(container), container.streams.audio
            return not (self.video and len(videos) > 1) and not (self.sound and len(sounds) > 1)


FIRST_STREAMS = StreamChoice.FIRST = StreamChoice()


def video_streams(container: OpenRecording) -> list[av.VideoStream]:
    """The videos of a file: the cover picture of a sound file, or of a film, is not one."""
    from av.stream import Disposition

    return [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]


def chosen_video(container: OpenRecording, name: str, streams: StreamChoice) -> av.VideoStream:
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


def open_container(path: Path) -> OpenRecording:
    """Open a recording or a sound file. Every part of storyframes that opens one does it here.

    Raises:
        RecordingError: it cannot be read, is empty, is no media file, refers to other files, or is several files that
            differ in kind.
    """
    files = recording_files(path)
    return JoinedFiles(files) if len(files) > 1 else _open_file(path)


def _open_file(path: Path) -> av.container.InputContainer:
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


# --- recordings of several files -------------------------------------------------------------------------------------


def file_names(joined: str) -> list[str]:
    """The names that are joined by ``+``, each with the suffix of a recording; of any other name that name itself."""
    return _SEAM.sub("\\1\0", joined).split("\0")


def check_joined_names(joined: str) -> None:
    """Refuse joined names of which another one than the first has a folder, or which are not of different files.

    Raises:
        ValueError: the message has the names, and the rule.
    """
    first, *others = file_names(joined)
    if any("/" in name for name in others):
        once = "+".join([first, *(PurePosixPath(name).name for name in others)])
        raise ValueError(f"the files of one recording are in one folder, which is named once: {once}")
    names = [PurePosixPath(first).name, *others]
    if others and (len({*names}) < len(names) or not {"", ".", ".."}.isdisjoint(names)):
        raise ValueError(f"'+' joins different files, each with its name: {joined}")


def recording_files(path: Path) -> list[Path]:
    """The files of a recording in their order: that of its path, or those whose names the path joins.

    Raises:
        RecordingError: the path joins a file with itself, or with an empty name.

    >>> [file.as_posix() for file in recording_files(Path("media/a.mp4+b.mp4"))]
    ['media/a.mp4', 'media/b.mp4']
    """
    names = file_names(path.name)
    if len(names) == 1 or os.path.isfile(path):  # Path.is_file raises an error for names of more than 255 bytes
        return [path]
    try:
        check_joined_names(path.name)
    except ValueError as error:
        raise RecordingError(str(error)) from None
    return [path.with_name(name) for name in names]


def recording_state(path: Path) -> tuple[int, int]:
    """Bytes and modification time of a recording, by which a change is noticed.

    Of several files it is the sum of the sizes, and a number below 2**63 that follows from the times in their order:
    files that exchange their names are a change.

    Raises:
        OSError: a file cannot be read.
    """
    states = [file.stat() for file in recording_files(path)]
    return sum(state.st_size for state in states), reduce(_one_time, (state.st_mtime_ns for state in states))


def _one_time(time_ns: int, next_ns: int) -> int:
    return (31 * time_ns + next_ns) % 2**63


def recording_digest(path: Path, digest: Callable[[Path], str]) -> str:
    """The digest of a recording's content, given that of a file's.

    Raises:
        OSError: a file cannot be read.
    """
    digests = [digest(file) for file in recording_files(path)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("+".join(digests).encode()).hexdigest()


class JoinedFiles(ExitStack):
    """Several files, opened as one recording. It has those members of PyAV's InputContainer that this project uses.

    The picture is the clock: the first frame of a file is shown when the last one before it ends. Where the sound
    would then overlap by more than a frame's duration, the file begins when the sound before it ends, so that no sound
    is lost, and the last frame before it is shown for longer. A recording without a picture goes on without a gap.

    Each file has a decoder of its own, except that sound which a camera cut goes on in the decoder of the file before:
    a new one gives other samples at first (AAC, MP3).

    Attributes:
        files: the open files.
        part: which of them is being read, from 0.
        longer_s: the seconds for which last frames are shown longer, so far.

    Raises:
        RecordingError: a file cannot be opened, or its container or streams are of another kind than the first's.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self._paths = paths
        self.files: list[av.container.InputContainer] = []
        self.part, self.longer_s = 0, 0.0
        self._begins = [Fraction(0)]
        try:
            for path in paths:
                self.files.append(self.enter_context(_open_file(path)))
                self._check(path.name)
        except RecordingError:
            self.close()
            raise
        self.streams, self.format, self.start_time = (
            getattr(self.files[0], name) for name in ("streams", "format", "start_time")
        )

    @property
    def duration(self) -> int | None:
        """Microseconds, by the files' headers; None where one does not say."""
        durations = [file.duration or 0 for file in self.files]
        return sum(durations) if all(durations) else None

    def demux(self, *streams: _S) -> Iterator[av.Packet[_S]]:
        """The packets of these streams of the first file, and of the same streams of the others."""
        decoding: dict[int, Any] = {}  # the stream whose decoder takes a stream's packets
        for part, file in enumerate(self.files):
            self.part, begin = part, self._begin(part)
            going_on = {stream.index for stream in streams if self._goes_on(stream, part + 1)}
            decoding = {stream.index: file.streams[stream.index] for stream in streams} | decoding
            packet: Any
            for packet in file.demux(*(file.streams[stream.index] for stream in streams)):
                first = self.streams[packet.stream.index]
                if first.index in going_on and not packet.size and packet.dts is None:
                    continue  # the end of a file, after which a decoder takes nothing more
                if part and first.time_base and packet.time_base:
                    scale = packet.time_base / first.time_base
                    for name in ("pts", "dts"):
                        if (ticks := getattr(packet, name)) is not None:
                            setattr(packet, name, round(ticks * scale + begin / first.time_base))
                    packet.time_base = first.time_base
                packet.stream = decoding[first.index]
                yield packet
            decoding = {index: stream for index, stream in decoding.items() if index in going_on}

    def _goes_on(self, stream: _S, part: int) -> bool:
        """Whether a file's sound was cut from that of the file before it: it does not say where its own encoding began.

        An encoder's first samples are none of the sound, and the container says how many a player skips.
        """
        if stream.type != "audio" or part == len(self.files) or _codec(stream) in _NEVER_CUT:
            return False
        if len({_set_up(file.streams[stream.index]) for file in self.files[part - 1 : part + 1]}) > 1:
            return False
        with _open_file(self._paths[part]) as file:
            first: Any = next(file.demux(file.streams[stream.index]))
            return not first.has_sidedata(_SKIPPED)

    def _check(self, name: str) -> None:
        """Refuse the file that was opened last if it is of another kind than the first."""
        expected, kinds = _kinds(self.files[0]), _kinds(self.files[-1])
        for what in expected | kinds:
            if expected.get(what) != kinds.get(what):
                raise RecordingError(
                    f"{name}: its {what} is {kinds.get(what)}, that of {self._paths[0].name} is {expected.get(what)}: "
                    "the files of one recording have the same; convert one with FFmpeg, or make it a session of its own"
                )

    def _begin(self, part: int) -> Fraction:
        """The second of the recording's clock at which a file's clock is 0."""
        while len(self._begins) <= part:
            before, path = self._paths[len(self._begins) - 1 :][:2]
            ends, starts = _ends(before, recording_state(before)), _starts(path)
            later = {index: ends[index][0] - starts[index] for index in ends.keys() & starts.keys()}
            streams = [stream.index for stream in _first_streams(self.files[0]) if stream.index in later]
            if not streams:
                raise RecordingError(f"{before.name}: has no packets, so when {path.name} begins is unknown")
            begin = later[streams[0]]
            overlap = later[streams[-1]] - begin
            if overlap > ends[streams[0]][1]:
                self.longer_s += float(overlap)
                begin += overlap
            self._begins.append(self._begins[-1] + begin)
        return self._begins[part]


def opened_files(container: OpenRecording) -> list[av.container.InputContainer]:
    """The files of an open recording."""
    return container.files if isinstance(container, JoinedFiles) else [container]


def _kinds(container: av.container.InputContainer) -> dict[str, str]:
    """Properties of a file in which all of a recording agree, as text."""
    kinds = {"container": container.format.name, "list of streams": " ".join(each.type for each in container.streams)}
    for video in container.streams.video:
        kinds[f"video (stream {video.index})"] = f"{_codec(video)} {video.width}x{video.height}"
    for sound in container.streams.audio:
        channels = sound.layout.nb_channels if sound.codec_context else 0
        kinds[f"sound (stream {sound.index})"] = f"{_codec(sound)} {sound.rate} Hz with {channels} channels"
    return kinds


def _codec(stream: av.stream.Stream) -> str:
    return stream.codec_context.name if stream.codec_context else "of an unknown codec"


def _set_up(stream: av.stream.Stream) -> bytes | None:
    """What the container says for the decoder of a stream."""
    return stream.codec_context.extradata if stream.codec_context else None


def _first_streams(container: av.container.InputContainer) -> list[av.stream.Stream]:
    """The first picture and the first sound, which say where a file begins and ends, whichever are read."""
    return [*video_streams(container)[:1], *container.streams.audio[:1]]


def _packet_times(container: av.container.InputContainer) -> Iterator[tuple[int, Fraction, Fraction]]:
    """The stream, time and duration of each packet of the first picture and sound that is shown or heard, seconds.

    An AVI has no times of its packets, only their order (see ``ShownFrames``). Samples that a player skips, because an
    encoder added them, do not count.
    """
    is_avi = container.format.name == "avi"
    for packet in container.demux(*_first_streams(container)):
        ticks, base = packet.dts if is_avi or packet.pts is None else packet.pts, packet.time_base
        if ticks is None or base is None or packet.is_discard:
            continue
        before_s, after_s = _skipped_s(packet)
        yield packet.stream.index, ticks * base + before_s, (packet.duration or 0) * base - before_s - after_s


def _skipped_s(packet: av.Packet[Any]) -> tuple[Fraction, Fraction]:
    """How much of a packet's sound a player skips, at its beginning and at its end."""
    stream: Any = packet.stream
    if not packet.has_sidedata(_SKIPPED):
        return Fraction(0), Fraction(0)
    before, after = struct.unpack_from("<II", bytes(packet.get_sidedata(_SKIPPED)))
    return Fraction(before, stream.rate), Fraction(after, stream.rate)


def _starts(path: Path) -> dict[int, Fraction]:
    """When a file's first picture and first sound begin on its clock, by stream."""
    starts: dict[int, Fraction] = {}
    with _open_file(path) as container:
        count = len(_first_streams(container))
        for index, time, _ in _packet_times(container):
            starts.setdefault(index, time)
            if len(starts) == count:
                break
    return starts


@lru_cache(maxsize=256)
def _ends(path: Path, state: tuple[int, int]) -> dict[int, tuple[Fraction, Fraction]]:
    """When a file's first picture and first sound end on its clock, and how long their last packets are, by stream.

    Args:
        state: of the file, see :func:`recording_state`; another one is another file.
    """
    import av

    for is_tail in (True, False):
        last: dict[int, list[tuple[Fraction, Fraction]]] = {}
        with _open_file(path) as container, suppress(av.FFmpegError):
            count = len(_first_streams(container))
            if is_tail:
                if not container.format.name.startswith(_SOUGHT) or not container.duration:
                    continue
                container.seek((container.start_time or 0) + max(container.duration - _TAIL_US, 0))
            for index, time, duration in _packet_times(container):
                last[index] = sorted([*last.get(index, []), (time, duration)])[-2:]
        if len(last) == count:
            break
    steps = {index: times[-1][1] or times[-1][0] - times[0][0] for index, times in last.items()}
    return {index: (times[-1][0] + steps[index], steps[index]) for index, times in last.items()}


def read_ahead(items: Iterator[_T], depth: int) -> Iterator[_T]:
    """The same items in the same order; a thread reads up to ``depth`` of them while the caller works on one.

    An exception of ``items`` is raised in the place of the item.
    """
    thread = ThreadPoolExecutor(max_workers=1)
    try:
        ahead = deque(thread.submit(next, items, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(thread.submit(next, items, _END))
            yield item  # type: ignore[misc]  # an item, since it is not _END
    finally:
        thread.shutdown(cancel_futures=True)
