"""Extracting: decoding, networks on a processor and on a GPU, and how right words, speakers and people are."""
