"""What runs, in which order, on what: Prefect flows, the cluster they run on, and the command line."""
