"""Labels from the files of annotation programs, one file for each format.

``import_labels`` has the table of formats, and writes what they read into the study's tables labels and schemes. All
formats are read into an ``annotation_file``: ``elan`` (.eaf), ``praat`` (.TextGrid) and ``label_table`` (CSV, also
audformat's).
"""
