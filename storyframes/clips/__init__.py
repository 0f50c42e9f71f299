"""Clips for training, in the order in which data flows.

The index: ``window_spec`` says how clips are cut, ``windows`` cuts them, ``splits`` assigns participants to splits, and
``clip_index`` makes the rows.

Reading: ``dataset`` (``ClipDataset``) chooses clips by ``filters`` and opens ``inputs``. An input is one of
``named_inputs`` or any feature of the store (``feature_input``), which says which of the ``readers`` fills a batch from
which rows: those nearest to the points of a ``grid``, or those that ``row_finders`` find.

Training: ``samplers`` and ``oversampling`` order clips, ``loader`` (``ClipLoader``) makes batches of torch tensors.
"""
