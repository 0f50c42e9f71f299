"""The steps of the work, as plain functions that flows wrap in tasks and tests call.

``extract`` makes one feature of one session. ``index`` writes the clip index: of the windows of each session
(``session_windows``), with labels as columns (``label_rules``, ``clip_labels``), the clocks of tracks
(``clip_tracks``), the recordings that sessions share (``shared_recordings``) and what is to be said of it
(``clip_remarks``). ``strict_settings`` is the base of all sections of the configuration.
``synchronise`` measures the clocks of a study's tracks. The rooms: ``study`` (what is handed in), ``media``
(recordings), ``extractors``, ``models`` and ``tools`` (what extractors use), ``planning`` (what is due), ``inspect``
(looking at what there is), ``statistics`` (of ratings), ``pairs`` (of stories), ``empathy`` (the paper's benchmark).
"""
