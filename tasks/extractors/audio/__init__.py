"""Features of sound: rows at their own rate, with their times and their means over each video frame.

``sound`` reads a session's sound and stores rows of it. ``extractor`` is the section and the feature of a model that
the configuration names: ``shape`` finds in a model's configuration when its rows are, ``encoder`` is the loaded
network, and ``windows`` runs it over equal windows with context and measures what their seams do. ``opensmile``, beside
this folder, builds on ``sound``.
"""
