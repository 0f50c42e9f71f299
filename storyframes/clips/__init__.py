"""Clips for training: ``window_spec`` and ``windows`` (the clip index) → ``dataset`` → ``loader``.

``inputs`` names what a clip holds, ``columns`` chooses of it, ``input_readers`` fill it, as long as ``lengths`` says.
``clip_filter`` and ``filter_expression`` choose clips, ``samplers`` and ``oversampling`` order them, ``buffers``
holds batches.
"""
