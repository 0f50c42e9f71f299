"""The commands ``storyframes empathy …``: ``app`` puts them together, one file a command or group of commands.

``train`` with its ``train_progress``, ``benchmark``, ``evaluate``, ``score`` (llm, bart, convert), ``topics``,
``pairs`` with ``pairs_llm``, and ``statistics`` (agreement, compare-ratings, mixed). ``language_model`` is how a
service is asked, ``tables`` is what the commands show. No command computes anything.
"""
