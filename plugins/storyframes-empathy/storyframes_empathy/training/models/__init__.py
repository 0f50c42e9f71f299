"""The models of the benchmark: sequences of the modalities in, an embedding of the window out.

``parts`` is what they share: what they are given, and layers. One file a model: ``amer``, ``tfn``, ``ef_lstm`` and
``lf_lstm``. ``build`` makes one by its name; ``sizes`` are their settings.
"""
