"""Pairs of stories: how well scores tell how similar people find two stories.

``texts`` reads pairs with their stories. ``score`` makes scores of embeddings, ``llm`` of a language model's answers to
``prompts``; ``finetune`` trains the model of the embeddings further. ``table`` reads pairs, labels and scores, also of
the published EmpathicStories files; ``metrics`` compares them.
"""
