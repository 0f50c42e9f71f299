"""Recordings: opened, and decoded as streams.

``container`` opens a file and decodes its frames with FFmpeg. ``video_header`` is what the header says of them, and
whether the file is whole. ``pictures`` converts colours and deinterlaces, ``upright`` turns pictures as a player does.
``recording`` gives the frames in batches, with times and pictures, from one decoding; ``region`` cuts a region out of
them. ``sound`` gives the sound, and where it is clipped. ``sound_bands`` is its loudness in bands, and ``speech`` how
likely somebody speaks. ``synthesize`` writes a ``synthetic_study``.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.media.container import FIRST_STREAMS, RecordingError, StreamChoice
    from tasks.media.recording import FrameBatch, read_frame_times, read_frames
    from tasks.media.sound import AudioBlock, NoAudioError, find_clipped, read_audio, sound_length_s, sound_s
    from tasks.media.sound_bands import HOP_S, SoundBands, read_bands
    from tasks.media.speech import over_floor, step_levels
    from tasks.media.streams import are_first
    from tasks.media.video_header import promised_length_s, read_header, read_streams

__all__ = [
    "FIRST_STREAMS",
    "HOP_S",
    "AudioBlock",
    "FrameBatch",
    "NoAudioError",
    "RecordingError",
    "SoundBands",
    "StreamChoice",
    "are_first",
    "find_clipped",
    "over_floor",
    "promised_length_s",
    "read_audio",
    "read_bands",
    "read_frame_times",
    "read_frames",
    "read_header",
    "read_streams",
    "sound_length_s",
    "sound_s",
    "step_levels",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "container": "FIRST_STREAMS RecordingError StreamChoice",
        "recording": "FrameBatch read_frame_times read_frames",
        "sound": "AudioBlock NoAudioError find_clipped read_audio sound_length_s sound_s",
        "sound_bands": "HOP_S SoundBands read_bands",
        "speech": "over_floor step_levels",
        "streams": "are_first",
        "video_header": "promised_length_s read_header read_streams",
    },
)
