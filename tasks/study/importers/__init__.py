"""Labels from the files of annotation programs, one file a format.

``read`` chooses by the suffix; ``annotation_file`` is what all are read into: ``elan`` (.eaf), ``praat`` (.TextGrid),
``audformat_table`` and ``label_table`` (CSV; ``possible_times`` finds columns that may be times, and data in the place
of a header). ``mapping`` says which tier is which scheme and which file is which session; ``to_tables`` writes the
study's tables labels and schemes.
"""
