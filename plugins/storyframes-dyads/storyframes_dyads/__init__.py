"""Two people of a session: synchrony of their signals and turns of their speech.

``signals`` reads columns onto the session's grid; ``lagged_correlation`` and ``other_measures`` compare two of them;
``circular_null`` says what chance gives. ``synchrony`` does so for a store's sessions, ``synchrony_tables`` makes
tables of it, and ``window_feature`` a feature of the store, of which ``lag_page`` shows pictures. ``speech`` reads who
speaks when, ``turns`` makes turns of it, and ``turn_feature`` a feature. ``written`` and ``shown`` are what the
``commands`` write and show. ``comparison`` compares groups of sessions. ``motion`` is a feature of pictures that
synchrony can be measured in.
"""
