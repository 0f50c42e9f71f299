"""A run, as a Prefect server and its users see it.

``configured_server`` asks the server that is configured, ``prefect_server`` uses it or starts one, ``artifacts`` are
what a run leaves on it, ``recent_runs`` lists its runs, ``deployments`` puts deploy/ on it.
"""
