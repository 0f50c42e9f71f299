"""The feature store: reading it, writing it, keeping it.

Its files: ``layout`` and ``records``; ``description`` is what they say of features, and ``validation`` checks all that
is read from them. ``record_status`` says of each feature of each session what is current, and why not.
``catalogue`` keeps these statuses in one of the ``table_files``; ``record_index`` says which records changed since.

Reading: ``feature_reader`` opens a ``snapshot`` of the catalogue; ``rows`` are mapped (through ``shards``), decoded, or
fetched from an object store by ``far_rows``, and kept in ``caches``. ``tables`` give a feature's rows names and times
(``session_times``); ``feature_store`` makes data frames and xarray trees of them. ``clip_table`` is the clip index.

Writing: ``publish``, through ``shards``. ``storage`` is where a store is: a folder, or an object store. ``maintenance``
verifies it, removes garbage and makes archives.
"""
