"""The extractors: each turns a session's files into one feature.

``base`` says what an extractor is, with its ``settings``, its ``source`` and its ``fingerprint``; ``registry`` which
there are, plug-ins among them (``plug_in`` refuses what is none). ``frames`` comes first: it is the session's clock.
``openface``, ``resnet50`` and ``dope`` look at pictures (the last two share one ``frame_pass``; ``image_networks`` is
what networks of pictures share), ``opensmile`` listens (through ``heard_sound`` and ``frame_means``), ``glove`` and
``sbert`` read (through ``speech``, ``stories`` and ``text_chunks``). ``label_curve`` takes over labels that change all
the time; ``embed`` makes a feature of any model that the configuration names. Plug-ins whose work is done by a program
in an environment or a container of its own build on ``outside``. ``required_tools`` is asked before anything begins,
``overview`` by a person.
"""
