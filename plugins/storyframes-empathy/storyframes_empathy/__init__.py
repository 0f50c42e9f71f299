"""The benchmark of one paper, EmpathicStories++, and the statistics that go with it, as a plug-in of storyframes.

``baseline`` predicts labels from means of features. ``scores`` reads what runs predicted and makes tables of it.
``training`` trains the paper's models and leaves such runs, ``benchmark`` a grid of them on a cluster, whose workers it
checks first. ``text`` scores texts by language models and groups stories by topic. ``pairs`` scores pairs of stories.
``statistics`` has agreement of raters, models beside people and mixed models. ``report`` has the pages, ``commands``
what the command line runs.

storyframes finds the plug-in by its entry points: ``storyframes.commands`` (``commands.app``, ``commands.baseline``),
``storyframes.settings`` (the section ``[train]``) and ``storyframes.report_pages`` (``report.agreement``).
"""

DISTRIBUTION = "storyframes-empathy"
"""For messages that say what to install."""

__version__ = "0.1.0"
