"""One session's features as a few curves over time: what a person looks at, and what quality is judged by.

``session_curves`` is what comes out, and ``read`` makes it: a feature that has one of the special ``views`` (a face,
poses, sound, speech) is shown by it; every other one by ``array_curves``, which know of it only what the store says.
Features of many columns have a ``heat_map`` as well.
``summary`` puts each curve into a line for a terminal.
"""
