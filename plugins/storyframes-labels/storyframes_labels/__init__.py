"""Labels from the files of annotation programs and from sheets, one file for each format.

``command`` is ``storyframes import labels``. ``read_annotations`` has the table of formats; other distributions add
theirs under the entry point ``storyframes.importers``. ``import_labels`` writes what they read into the study's tables
labels, curves and schemes: ``mapping`` is what the user says of tiers and columns, ``missing`` which cells have no
value, ``spelling`` which labels are one, ``owners`` whose the labels are, ``curve_files`` the curves, ``study_tables``
the tables with all of it. All formats are read into an ``annotation_file``: ``elan`` (.eaf) and ``elan_export`` (its
tab-delimited text), ``praat`` (.TextGrid), ``nova`` (.annotation), ``boris`` and ``datavyu`` (their exports), and
``label_table`` a ``sheet`` (a workbook, or CSV, also audformat's), with ``clock_times`` in it. ``corrected_words``
makes transcripts of tiers of words. Readers of programs' files are in ``programs``.
"""
