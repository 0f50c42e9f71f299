"""openSMILE: ``settings`` → ``extractor`` → ``stream`` (the library's descriptors, with its files in ``conf``)."""
