"""OpenFace.

``extractor`` → ``tool`` (running FeatureExtraction) → ``csv_output`` (believing only what can be checked).

``files`` is what decides a binary's values, ``check`` tries the tool out before a study depends on it,
``tolerances`` says how far two builds may differ.
"""
