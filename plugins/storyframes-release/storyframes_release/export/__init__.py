"""Features for other programs: files of named columns, with a README beside them.

``run`` goes from a store to a folder: each table (:mod:`storyframes.store.tables`, or ``Pooling`` with a row for
each word or utterance) becomes files in one of the ``formats`` or a plug-in's, by ``arrow_files`` (Parquet, CSV),
``array_files`` (NumPy, HDF5) or ``matlab_files``. ``readme`` says what they are; ``whole_folder`` seals the folder
visible in one step, and replaces only what an export wrote.

``clips`` goes from the clip index to a folder in one of the ``clip_formats``: MMSA's pickle, and files for ``datasets``
and ``webdataset``.
"""
