"""ResNet-50 embeddings of frames (see ``extractor``)."""
