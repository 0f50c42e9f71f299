"""A study as it is handed in.

``load`` → ``strict_tables`` (what stands in a table) → ``rows`` (what it may be) → ``problems``.

``transcript`` (with ``captions``) reads what was said. ``record`` is what a feature store remembers of its study.
"""
