"""The streams of a recording, for people: several pictures or sounds, and channels in which nothing is heard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.media.container import OpenRecording, StreamChoice, chosen_video, open_container, video_streams
from tasks.media.sound import chosen_sound, peak_of_channels

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.video.stream import VideoStream

_HEARD_S = 10.0  # of the sound that is decoded
_SILENT = 1e-4  # of full scale: no sample is louder in a channel to which no microphone is connected


def stream_remarks(path: Path, name: str, *, picture: bool, sound: bool, streams: StreamChoice) -> Iterator[str]:
    """What to know about the streams of a recording, of which one picture and one sound are read.

    The first seconds of the sound are decoded.

    Args:
        name: what the recording is called in the remarks.
        picture, sound: whether this one is read.
        streams: which picture and which sound, where there are several.

    Raises:
        RecordingError: FFmpeg cannot read it, or, after its remark, it has several pictures or sounds and not this one.
    """
    with open_container(path) as container:
        videos = video_streams(container) if picture else []
        if len(videos) > 1:
            yield _several(name, "video", [_video_words(stream) for stream in videos], streams.video)
            chosen_video(container, path.name, streams)
        sounds = container.streams.audio if sound else ()
        peaks = _channel_peaks(container, sounds) if sounds else {}
        silent = {number for number, channels in peaks.items() if max(channels) < _SILENT}
        if len(sounds) > 1:
            words = [_sound_words(stream, is_silent=number in silent) for number, stream in enumerate(sounds)]
            yield _several(name, "sound", words, streams.sound)
            chosen_sound(sounds, path.name, streams)
        channels = peaks.get(streams.sound if len(sounds) > 1 else 0, [])
        quiet = [number for number, peak in enumerate(channels, 1) if peak < _SILENT]
        if quiet and len(quiet) < len(channels):
            which = f"channel {quiet[0]} is" if len(quiet) == 1 else f"channels {', '.join(map(str, quiet))} are"
            yield (
                f"{name}: {which} silent in the first {_HEARD_S:.0f} s of its sound, of {len(channels)}: the mean "
                f"of all channels is taken, so a voice in one of them is 1/{len(channels)} as loud"
            )


def _several(name: str, kind: str, streams: list[str], taken: int) -> str:
    numbered = "; ".join(f"{number}: {words}" for number, words in enumerate(streams))
    read = f"stream {taken} is read, the others are not" if taken < len(streams) else f"there is no stream {taken}"
    other = f"[recording] {kind}_stream = 1 reads the second"
    return f"{name}: has {len(streams)} {kind} streams ({numbered}): {read}; {other}"


def _video_words(stream: VideoStream) -> str:
    rate = f", {float(stream.average_rate):.3g} frames a second" if stream.average_rate else ""
    return f"{_codec(stream)} {stream.width}x{stream.height}{rate}" if stream.codec_context else _codec(stream)


def _sound_words(stream: AudioStream, *, is_silent: bool) -> str:
    if not stream.codec_context:
        return _codec(stream)
    language = f", {stream.language}" if stream.language not in (None, "und") else ""
    silent = f", silent in the first {_HEARD_S:.0f} s" if is_silent else ""
    channels = "1 channel" if stream.layout.nb_channels == 1 else f"{stream.layout.nb_channels} channels"
    return f"{_codec(stream)}, {channels}, {stream.rate} Hz{language}{silent}"


def _codec(stream: VideoStream | AudioStream) -> str:
    return stream.codec_context.name if stream.codec_context else "of an unknown codec"


def _channel_peaks(container: OpenRecording, sounds: Sequence[AudioStream]) -> dict[int, list[float]]:
    """By the number of a sound stream, the largest sample of each channel in the first seconds; 1 is full scale.

    What does not decode is left out: the extraction says so.
    """
    import av

    numbers = {stream.index: number for number, stream in enumerate(sounds) if stream.codec_context}
    peaks: dict[int, list[float]] = {}
    heard_s = dict.fromkeys(numbers, 0.0)
    if not numbers:
        return peaks
    with suppress(av.FFmpegError):
        for packet in container.demux(*(stream for stream in sounds if stream.index in numbers)):
            number = numbers[packet.stream.index]
            for frame in _decoded(packet):
                heard_s[packet.stream.index] += frame.samples / frame.sample_rate
                frame_peaks = peak_of_channels(frame)
                before = peaks.setdefault(number, frame_peaks)
                if len(before) == len(frame_peaks):  # not where another file was joined to this one
                    peaks[number] = [max(pair) for pair in zip(before, frame_peaks, strict=True)]
            if min(heard_s.values()) > _HEARD_S or max(heard_s.values()) > 2 * _HEARD_S:  # one may have no sound
                break
    return peaks


def _decoded(packet: Any) -> list[Any]:
    import av

    try:
        return list(packet.decode())
    except av.FFmpegError:
        return []
