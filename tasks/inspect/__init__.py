"""Looking at what there is.

``study_check`` opens every file of a study. ``curves`` are a session's features as few curves, which
``curve_summary``, ``quality`` and ``report`` read; ``compare`` (with ``tolerances``) sets two stores side by side;
``overlay`` draws on a frame, ``rerun_export`` makes a recording to walk through. ``human`` writes numbers as people
read them.
"""
