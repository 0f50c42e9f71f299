"""A session's features, labels and turns as one file of Neurodata Without Borders (NWB).

``poses`` finds the poses of a table, ``session_file`` writes the file of a session, and ``run`` exports the sessions of
a study. It needs the extra ``storyframes-release[nwb]``.
"""
