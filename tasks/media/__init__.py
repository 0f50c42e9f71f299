"""Recordings: opened, and decoded as streams.

``container`` opens a recording. ``shown_frames`` decodes its frames with FFmpeg and says how a player turns them.
``video_header`` reads what the header says of them, and whether the file is whole. ``recording`` gives the frames in
batches, converted, deinterlaced and upright, with times, from one decoding, and ``upright`` writes them for other
tools; ``region`` cuts a region out of them. ``sound`` gives the sound, and where it is clipped. ``sound_bands`` is its
loudness in bands, and ``speech`` how likely somebody speaks. ``synthesize`` writes a ``synthetic_study``.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.media.container import RecordingError, StreamChoice
    from tasks.media.recording import FrameBatch, read_frame_times, read_frames
    from tasks.media.sound import AudioBlock, NoAudioError, find_clipped, read_audio, sound_s
    from tasks.media.sound_bands import SoundBands
    from tasks.media.video_header import promised_length_s, read_header, read_streams

__all__ = [
    "AudioBlock",
    "FrameBatch",
    "NoAudioError",
    "RecordingError",
    "SoundBands",
    "StreamChoice",
    "find_clipped",
    "promised_length_s",
    "read_audio",
    "read_frame_times",
    "read_frames",
    "read_header",
    "read_streams",
    "sound_s",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "container": "RecordingError StreamChoice",
        "recording": "FrameBatch read_frame_times read_frames",
        "sound": "AudioBlock NoAudioError find_clipped read_audio sound_s",
        "sound_bands": "SoundBands",
        "video_header": "promised_length_s read_header read_streams",
    },
)
