"""The feature store: reading it, writing it, keeping it.

Reading: ``feature_store`` opens a ``snapshot`` of the ``catalogue`` (``catalogue_rows``); ``rows`` are mapped (through
``shards``), decoded, or fetched from an object store by ``far_rows``, and kept in ``caches``. ``tables`` give a
feature's rows names and times (``session_times``); ``explore`` makes data frames and xarray trees of them.
``clip_table`` is how the clip index is stored. ``now`` is what the records say at this moment, for ``status``.
Writing: ``publish``, through ``shards``; ``record_index`` says which records the ``catalogue`` has to read again.
What a store says of its features: ``description``; what of it can be true: ``validation``, for all readers.
``layout`` and ``records`` are the files of a store; ``storage`` is where it is: a folder, or an object store.
``maintenance`` verifies it, removes garbage and makes archives.
"""
