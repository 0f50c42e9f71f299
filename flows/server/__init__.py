"""A run, as a Prefect server and its users see it.

``prefect_server`` finds or starts a server, ``artifacts`` are what a run leaves on it, ``recent_runs`` lists its runs,
``deployments`` puts deploy/ on it.
"""
