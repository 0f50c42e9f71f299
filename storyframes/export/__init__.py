"""Features for other programs: files of named columns, with a README beside them.

``run`` goes from a store to a folder: each table (:mod:`storyframes.store.tables`) becomes files by one of the
``formats``: ``parquet_files``, ``csv_files``, ``npy_files``, ``hdf5_files`` or ``matlab_files``. ``readme`` says what
they are, ``whole_folder`` makes the folder visible in one step, and replaces only what an export wrote.
"""
