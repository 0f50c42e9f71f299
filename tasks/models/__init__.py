"""The files whose content decides values, and two libraries that need care to import.

``weights`` (model files: where they are, how they are fetched) and ``digests`` (SHA-256 of inputs).
``torchvision_import`` and ``openvino_import`` are the one place each where these libraries are imported.
"""
