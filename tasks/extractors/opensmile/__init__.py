"""openSMILE: ``settings`` → ``extractor`` → ``stream`` (the library's descriptors, with its files in ``conf``), and
``undefined``, which says where these are no values.
"""
