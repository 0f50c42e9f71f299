"""Features of texts: a row for each utterance or word of a session, or for each story of the study.

``speech`` reads a session's transcript and the study's stories. ``extractor`` turns them into features, with any model
that the configuration names; ``model`` is the section for such a model and says how wide its rows are; ``encoder``
loads it and embeds texts. ``sbert`` and ``glove``, beside this folder, are built on it.
"""
