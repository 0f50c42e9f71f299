"""What runs, in which order, on what: Prefect flows, the cluster they run on, and the command line.

``one_file`` is the one that needs neither: ``storyframes.extract``.
"""
