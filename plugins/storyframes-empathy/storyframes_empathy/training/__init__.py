"""The paper's models: how far one story moves one listener, learned from the features of a session.

``settings`` is the section ``[train]``, and says which settings fit which model. ``splits`` has the clips of a run and
their order, ``paper_order`` that of the paper, ``labels`` what is learned of them. ``moments`` measures columns,
``inputs`` makes z-scores of them, and ``feed`` gives batches, of the store or of a bank of prepared frames. ``models``
are the networks, ``train`` is the loop with its checkpoint, ``predict`` scores clips. ``projection`` has v in fewer
columns, ``personality`` what participants said of themselves. ``own_study`` takes defaults from the store. ``opened``
is a run before it is trained, ``runs`` trains it in its ``run_folder``. ``grid`` has all runs of a benchmark, each for
any worker. ``untrained`` leaves the baseline that nobody trained beside them, and ``provenance`` says of which versions
of features both are made.
"""
