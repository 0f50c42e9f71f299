"""The extractors: each turns a session's files into one feature.

``base`` says what an extractor is and what decides its values, ``registry`` which there are. ``frames`` comes first:
it is the session's clock. ``openface``, ``resnet50`` and ``dope`` look at pictures (the last two share one
``frame_pass``), ``opensmile`` listens, ``glove`` and ``sbert`` read (through ``speech`` and ``stories``).
``required_tools`` is asked before anything begins.
"""
