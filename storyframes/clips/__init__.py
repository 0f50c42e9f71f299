"""Clips for training: ``window_spec``, ``windows``, ``splits``, ``clip_rows`` (the index) → ``dataset`` → ``loader``.

``window_table`` keeps the windows of sessions, so that the index can be brought up to date. ``split_spec`` draws other
splits than the index's.

``inputs`` is what a clip may hold: any feature (``feature_input``), or one of the ``named_inputs``. ``columns`` chooses
of it, ``row_finders`` tell which rows are a clip's where they are not frames, ``speakers`` whose words they are,
``spoken`` what is said at a moment, ``grid`` which rows are nearest to points of one rate, ``same_frames`` whether
another track's frames are the clips', and ``input_readers`` fill it.
``clip_filter`` and ``filter_expression`` choose clips, ``samplers`` and ``oversampling`` order them, ``buffers``
holds batches.
"""
