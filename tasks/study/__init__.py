"""A study as its owner gives it: tables, transcripts and labels.

``load`` reads a study: ``table_rows`` makes the rows of each table (``strict_tables`` reads the file, ``csv_text`` its
text, ``rows`` has the columns), and ``references`` and ``label_rows`` check the rows against each other. Everything
wrong becomes one of the ``problems``. ``labels`` has schemes and labels.

``transcript`` (with ``captions``) and ``curves`` read files that the tables name. ``sessions_from_files`` writes the
first tables, by what ``recording_names`` reads in names, with ``first_settings``. ``changed_tables`` changes tables,
and ``importers`` reads the annotations of other programs into them.
``study_identity`` is what a feature store records of its study.
"""
