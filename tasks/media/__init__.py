"""Recordings: opened, decoded as streams, and checked with a second decoder.

``container`` opens a file, and nothing that points elsewhere. ``video_header`` is what it promises, ``cut_off``
whether it is whole. ``recording`` gives the frames and their times: from ``shown_frames`` (FFmpeg), ``opencv_frames``
(compared with FFmpeg's) and ``deinterlace``. ``sound`` gives the sound, ``clipping`` says where it is cut off
(at ``full_scale``); ``sound_bands`` is how loud it is, from which ``sync`` tells the clock of another recording.
``read_ahead`` decodes in a thread of its own; ``synthesize`` and ``synthetic_pairs`` make
recordings up, of a ``synthetic_shape``, with ``synthetic_files`` and ``synthetic_voice``.
"""
