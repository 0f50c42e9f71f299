"""How people speak, by Praat.

``praat`` measures one utterance. ``extractor`` is the feature ``prosody``, a row for each utterance. ``persons`` sums
it up for each person and session, and ``commands`` shows that table.
"""
