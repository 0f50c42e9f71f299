"""Extracting: each extractor beside the best loop of its library, long recordings, whole studies, and one file."""
