"""What runs, in which order, on what: Prefect flows, the cluster they run on, and the command line.

``in_process`` needs neither: it does the units of a small run, and those of ``one_file`` (``storyframes.extract``).
"""
