"""Features that other programs made, taken into a feature store.

``command`` is ``storyframes adopt``, and ``adopt`` checks and publishes. ``adopted_files`` reads files of one session,
``adopted_sequences`` those of many, with ``safe_pickle``.
"""
