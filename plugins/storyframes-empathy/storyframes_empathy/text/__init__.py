"""Texts of a study. Scores: how much a participant empathizes with a story, by a language model or by BART.

``samples`` (texts of the study, labels of the clip index) → ``prompts`` → ``llm``, which asks through the gate of
``endpoint`` and within the ``budget``; ``answer`` reads the number, ``cache`` keeps it. ``bart`` compares vectors of
texts (``bart_checkpoint`` makes its folder). ``score`` writes predictions like a trained model's. Nothing of a text is
stored, logged or sent to a host that the user did not name. ``topics`` groups the study's stories by their
embeddings (the store's, or a service's: ``embeddings``).
"""
