"""The commands ``storyframes empathy …``: ``app`` puts them together, one file a command or group of commands.

``train`` with its ``train_progress``, ``benchmark``, ``evaluate``, ``score`` (llm, bart, convert), ``topics``,
``pairs`` with ``pairs_llm`` (``language_model`` is what they ask), and ``statistics`` (agreement, compare-ratings, mixed). ``tables`` is what they show. No
command computes anything.
"""
