"""The ``storyframes`` command, one file a group of commands.

``entry`` (where it begins and ends) → ``app`` (the commands) with ``look``, ``plan``, ``deploy``, ``models`` →
``run`` (one extraction) and ``demo``. ``terminal`` is what all commands share, ``console`` tells the progress of a
run, ``tables`` and ``look_tables`` are what is shown, ``repair_advice`` what to do after ``verify``. No command
computes anything.
"""
