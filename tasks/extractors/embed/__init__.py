"""Any model as a feature: what the sections ``[[embed]]`` of the configuration become.

``settings`` is what all sections share, ``kinds`` which kinds there are, with their extractors; ``extractor`` what
these share. ``local_model`` finds a model's files: those of the hub in its cache (``hub_cache``), torchvision's in
torch's (``torchvision_weights``); ``model_files`` tells which of them decide values. ``fetch`` gets a model, when
somebody asks for it. The kinds are rooms: ``audio``, ``image``, ``text``.
"""
