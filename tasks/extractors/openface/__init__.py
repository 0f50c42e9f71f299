"""openface: running OpenFace, and reading what it wrote.

``extractor`` → ``tool`` (running FeatureExtraction) → ``csv_output`` (checking and reading its CSV).

``files`` is what decides a binary's values, ``check`` tries the tool out before a study depends on it, ``tolerances``
is how far two builds of it differ without meaning anything.
"""
