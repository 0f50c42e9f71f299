"""A release: a part of a feature store that may be given to others, without anything that says of whom it is.

Everything is left out unless it is known to be harmless, or named in the configuration (``settings``). ``run`` makes
the release: ``sensitivity`` says what needs a permission of its own, ``pseudonyms`` gives ids new numbers,
``named_ids`` refuses texts and labels that name somebody, ``released_features`` says what of each feature is copied,
``copying`` copies it, ``released_clips`` is the clip index with new ids. ``card``, ``croissant`` and ``manifest``
describe the result; the latter proves it again later.
"""
