"""The files whose content decides values, and the libraries of networks, which need care to import and to run.

``weights`` (model files: where they are, how they are fetched) and ``digests`` (SHA-256 of inputs).
``libraries`` is the one place where torchvision and OpenVINO are imported.
``one_thread`` is how torch computes on a processor.
"""
