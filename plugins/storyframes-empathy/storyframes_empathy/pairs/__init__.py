"""Pairs of stories: how well scores agree with people on how similar two stories are.

``table`` reads pairs with their texts, labels and scores, also from the published EmpathicStories files. ``score``
makes scores of embeddings, ``llm`` of a language model's answers. ``finetune`` trains the model of the embeddings
further. ``metrics`` compares scores with labels.
"""
