"""openSMILE: ``extractor`` is the feature, ``feature_sets`` its settings and which of the library's numbers are no
values, ``stream`` the library's descriptors of a stream of sound, with configuration files in ``conf``.
"""
