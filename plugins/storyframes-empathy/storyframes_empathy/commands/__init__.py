"""The commands ``storyframes empathy …``: ``app`` puts them together, one file a command or group of commands.

``train`` with its ``train_progress`` and ``training_tables``, ``benchmark``, ``evaluate``, ``score`` (llm, bart,
convert), ``topics``, ``pairs`` with ``pairs_llm`` and ``pairs_tables``, ``statistics`` (agreement, compare-ratings,
mixed) with ``statistics_tables``. No command computes anything.
"""
