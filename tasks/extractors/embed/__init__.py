"""Models that the configuration names, in sections ``[[embed]]``: what the kinds of them share.

``settings`` is what all sections share, ``extractor`` the base of their features. ``local_model`` finds a model's files
on this machine and reads them once; ``sources`` is where models are published and stored, and fetches them when
somebody asks for it. The kinds are rooms beside this one: ``image``, ``audio``,
``text``, ``video``.
"""
