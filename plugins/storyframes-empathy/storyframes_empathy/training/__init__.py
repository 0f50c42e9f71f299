"""The paper's models: how far one story moves one listener, learned from the features of a session.

The way to a model: ``settings`` (``fitting`` says which fit which model) → ``splits`` (whose clips, in which order)
and ``labels`` (what is learned; of ``curves`` their means) → ``moments``, ``inputs`` (z-scores) and ``feed`` (batches,
or a bank of frames) → ``models`` → ``train`` (the loop, with its ``checkpoint``) → ``predict``. ``projection`` has v in
fewer columns, ``personality`` what participants said of themselves. ``opened`` is a run before it is trained, ``runs``
all of it, in its ``run_folder``; ``grid`` is all runs of a benchmark, each for any worker. ``untrained`` leaves, beside
them, the baseline that nobody trained; ``provenance`` says of which versions of features both are.
"""
