"""Looking at what there is.

``study_check`` opens every file of a study. ``curves`` are a session's features as few curves, which
``curve_summary``, ``quality`` and ``report`` read. ``compare`` sets two stores side by side: a ``feature_pair`` for
each feature of each session, an ``array_tally`` of its differences within ``tolerances``, gathered in a
``comparison``. ``overlay`` draws on a frame, ``rerun_export`` makes a recording to walk through. ``human`` writes
numbers as people read them, ``markdown`` texts as they are.
"""
