"""The first tables of a study, and its first configuration, from the files in a folder.

``sessions_from_files`` writes them. ``recording_names`` reads sessions, devices and dates in the names of files,
``recording_parts`` joins files that are parts of one recording, and ``first_settings`` is the configuration.
"""
