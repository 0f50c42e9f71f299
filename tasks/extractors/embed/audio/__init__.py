"""Models of sound as features.

``settings`` is the section, ``extractor`` the feature. ``shape`` tells from a model's configuration when its rows are;
``windows`` cuts the sound into equal windows with context, ``encoder`` is the loaded network, ``stream`` runs it over
the windows and measures what the seams between them do.
"""
