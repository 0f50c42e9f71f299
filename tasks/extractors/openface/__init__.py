"""openface: running OpenFace, and reading its output.

``extractor`` → ``tool`` (running FeatureExtraction, and trying it on a short clip) → ``csv_output`` (checking and
reading its CSV) or ``several_faces`` (one person's rows of a CSV of several). ``all_faces`` runs
FaceLandmarkVidMulti for the boxes of everybody's faces. ``files`` hashes what decides a binary's values.
"""
