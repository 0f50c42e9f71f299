"""A study as it is handed in: its tables and transcripts.

``load`` → ``table_rows`` (each table by itself: ``strict_tables`` on ``csv_text`` what stands in it,
``spreadsheet_habits`` what it means, ``rows`` what may) → ``references``, ``devices`` and
``annotations`` (what has to agree between tables) → ``problems``.

What comes of it: ``labels``, ``tracks`` and ``clocks``. ``transcript`` (with ``captions``) and ``curve_file`` read
files that the tables name, and ``curve_mean`` makes one curve of several raters'; ``importers`` brings annotations of
other programs into tables, ``from_files`` makes the first table, ``clock_rows`` adds measured clocks;
``changed_tables`` (with ``parquet_columns``) is how tables are changed. ``record`` is what a feature store remembers
of its study.
"""
