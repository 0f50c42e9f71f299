"""Scores of a study's texts, by a language model or by BART, and topics of its stories.

``samples`` reads texts of the study and labels of the clip index. ``prompts`` says what is asked and reads the number
out of an answer. ``llm`` asks, through the gate of ``endpoint`` and within the ``budget``; ``cache`` keeps answers.
``bart`` compares vectors of texts, and ``bart_checkpoint`` makes its folder. ``score`` writes predictions like those of
a trained model. ``topics`` groups the study's stories by their embeddings: the store's, or a service's
(``embeddings``). No text is stored, logged or sent to a host that the user did not name.
"""
