"""The clip index of a study: which windows there are, what labels them, and in which split they are.

``index`` puts it together: the windows of each session, or why a session gives none (``session_windows``), labels as
columns by the rules of the configuration (``label_rules``, ``labels``), the clocks and recorded times of tracks
(``tracks``), the recordings that sessions share (``shared_recordings``), and ``remarks`` about the index as a whole.
``kept_index`` says whether the one that a store has was made of the same, so that it need not be made again.
"""
