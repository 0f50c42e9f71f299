"""Looking at what there is.

``study_check`` opens every file of a study; ``devices`` are the cameras and microphones of a session. A
``stored_feature`` is a feature as the store describes it: what looks at values knows no more of it. ``curves`` are a
track's features as few curves, which ``quality`` and ``report`` read;
``picture_points`` are what of them lies on the picture: ``overlay`` draws it on a frame, ``rerun_export`` makes a
recording to walk through. ``compare`` sets two stores side by side: a ``feature_pair`` for each feature of each
session, an ``array_tally`` of its differences within ``tolerances``, gathered in a ``comparison``. ``human`` writes
numbers as people read them, ``markdown`` texts as they are.
"""
