"""The feature store: reading it, writing it, keeping it.

Reading: ``feature_store`` → ``snapshot`` of the ``catalogue`` (``catalogue_rows``) → ``rows`` (mapped, through
``shards``; decoded, with ``chunk_cache``; or fetched, by ``far_rows``, and kept in a ``local_copy``); ``explore`` for
a notebook, with ``tables``, or ``parts`` of them, as data frames (``session_times`` says when their rows are);
``clip_table`` is how the clip index is stored.
``now`` is what the records say at this moment, for ``status``.
Writing: ``publish`` → ``shards``; ``seen`` tells which records the ``catalogue`` has to read again.
What a store says of its features: ``description``; whether what it says can be: ``validation``, for all readers.
Keeping: ``maintenance`` (``verify``, ``losses``, ``garbage``), ``archive``. Where it lies: ``location`` →
``folder_storage`` or ``object_storage``, both a ``storage``; by a ``run_mark`` workers prove that they see the same
place; ``zarr_folder`` is a folder for zarr-python, and ``regular_files`` opens what is in one; ``layout`` and
``records`` are what lies there. ``durable``, ``locks``, ``scratch``, ``owner`` and ``shard_guard`` keep it whole
where processes are killed.
"""
