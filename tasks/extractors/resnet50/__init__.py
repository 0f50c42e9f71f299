"""ResNet-50: ``settings`` → ``extractor`` → ``crops`` (frames into the network's input) → an engine.

``engine`` says what an engine is, ``engines`` chooses: ``openvino_engine`` on processors, ``torch_engine`` on a GPU.
Both compute the ``network``.
"""
