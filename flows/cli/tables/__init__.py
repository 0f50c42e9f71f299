"""What the commands show, at most 100 columns wide in a terminal, and the same as JSON for scripts.

``study`` (check, index, clips), ``status`` (status, runs), ``upkeep`` (verify, gc), ``session`` (show),
``comparison`` (compare, report), ``machine`` (models, extractors). ``finite_json`` writes JSON without NaN.
"""
