"""Statistics of ratings: how far raters agree, and how models differ from people. Nothing here reads a feature store.

``rating_table`` reads the columns of a table, ``ratings`` makes units and raters of them, and ``study_ratings``
those of a study's own labels. ``agreement`` compares raters, with alpha from ``krippendorff``; ``comparison`` compares
models with people; ``mixed`` fits mixed models. ``choices`` is what a caller may choose. ``personas`` makes prompts and
reads answers; it sends nothing.
"""
