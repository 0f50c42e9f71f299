"""glove: a vector for every word of a transcript.

``extractor`` → ``word_forms`` (under which forms a word is looked up) and ``word_vectors`` (the vectors, mapped).
"""
