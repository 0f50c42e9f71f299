"""Pairs of stories: how well scores tell how similar people find two stories.

``score`` makes scores of embeddings. ``table`` reads pairs, labels and scores, also of the published EmpathicStories
files; ``metrics`` compares them.
"""
