"""Programs that run beside this process and never outlive it.

``containers`` runs one command in podman, docker or apptainer, ``tool_process`` one on this machine. The programs
``parent_death`` and ``reaper_process`` clean up when this process is killed. ``disk_space`` says which disk is full.
"""
