"""A run, as a Prefect server and its users see it.

``server`` finds or makes a server: ``configured_server`` asks the one that is named, ``own_server`` starts one for a
single command. ``progress``, ``artifacts`` and ``result`` are what a run tells while it goes on and at its end,
``recent`` lists the runs that there were, ``deployments`` puts deploy/ on a server.
"""
