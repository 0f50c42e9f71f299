"""Many sessions: planning, the catalogue, Prefect and Dask with no-op work, and what a command imports."""
