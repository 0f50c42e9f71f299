"""Recordings: opened, decoded as streams, and checked with a second decoder.

``container`` opens a file. ``video_header`` is what its header says, and whether the file is whole. ``shown_frames``
are the frames as FFmpeg decodes them, and ``recording`` gives them in batches, with times and pictures. ``sound`` gives
the sound, and where it is clipped. ``sound_bands`` is its loudness in bands, by which ``sync`` measures the clock of
another recording. ``synthesize`` writes a ``synthetic_study`` of ``synthetic_recordings``.
"""
