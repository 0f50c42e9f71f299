"""Features of clips: one row for each window of a video, made by a model of videos that the configuration names.

``extractor`` is the section and the feature. ``shape`` finds in a model's configuration how many frames it takes and
how wide its rows are, ``windows`` chooses the frames of each window by their times and feeds the model with them while
they are decoded, and ``encoder`` is the loaded model.
"""
