"""A release: a de-identified subset of a feature store, for sharing.

Everything is left out unless it is known to be harmless, or named in the configuration (``settings``). ``run`` makes
the release: ``released_features`` says what of each feature is copied and what needs a permission of its own, ``ids``
gives ids new numbers and refuses texts and labels that name somebody, ``copying`` copies a feature, ``provenance``
says how it was made and prints the configuration that makes it again, ``released_clips`` is the clip index with new
ids. ``description`` (with ``methods``), ``croissant`` and ``manifest`` describe the result; the last one verifies it
later.
"""
