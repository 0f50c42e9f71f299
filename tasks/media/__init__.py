"""Recordings: opened, and decoded as streams.

``container`` opens a file and decodes its frames with FFmpeg. ``video_header`` is what the header says of them, and
whether the file is whole. ``pictures`` converts colours and deinterlaces, ``upright`` turns pictures as a player does.
``recording`` gives the frames in batches, with times and pictures, from one decoding; ``region`` cuts a region out of
them. ``sound`` gives the sound, and where it is clipped. ``sound_bands`` is its loudness in bands, and ``speech`` how
likely somebody speaks. ``synthesize`` writes a ``synthetic_study``.
"""
