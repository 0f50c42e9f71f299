"""openSMILE: ``settings`` → ``extractor`` → ``stream`` (the library's descriptors, with its files in ``conf``).

``frame_means`` brings the rows to the video's frames.
"""
