"""A session's labels, turns, clips and words as files of annotation programs: ELAN's .eaf and Praat's TextGrid.

``tiers`` makes the tiers of a session, ``elan`` and ``praat`` write them, and ``run`` exports the sessions of a study.
"""
