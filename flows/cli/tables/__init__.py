"""What the commands show, at most 100 columns wide in a terminal, and the same as JSON for scripts.

``study`` (of ``check``), ``clocks`` (of ``sync``), ``clips`` (of ``index``), ``status``, ``upkeep`` (of ``verify``
and ``gc``), ``runs``, ``models``, ``extractors``, ``session`` (of ``show``), ``report``, ``comparison`` (of
``compare``), ``statistics`` (of ``agreement``, ``compare-ratings``, ``mixed``), ``pairs``, ``training`` (of
``train``), ``doctor``. ``finite_json`` writes what a script reads.
"""
