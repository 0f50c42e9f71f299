"""ResNet-50: ``settings``, ``extractor``, ``model`` (which weights), ``network``; ``image_networks`` does the rest."""
