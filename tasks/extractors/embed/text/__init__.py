"""Models of texts as features.

``settings`` is the section, ``shape`` how wide a model is, ``extractor`` the two features (of a session's utterances,
of the stories). ``encoder`` loads a model and embeds texts whole, in chunks where they are longer than it reads.
"""
