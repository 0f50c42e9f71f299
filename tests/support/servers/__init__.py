"""Servers and clusters that tests start, runs on them, and processes that attack them.

`one_server` (a Prefect server for many commands) · `prefect_runs` (extractions through the flows) · `in_process_runs` ·
`deployment_server` (PostgreSQL and a Prefect server) · `deployed_house` (a whole installation on them) ·
`slurm_cluster` (a real Slurm) · `own_mounts` (a process that sees another folder under a path) · `terminals` (the
command in a terminal) · `strangers` (processes that try the ports of a run; `intruder` is their program).
"""
