"""Programs that run beside this process and never outlive it.

``containers`` runs one command in podman, docker or apptainer, ``tool_process`` one on this machine. ``parent_death``
and ``reaper`` (with ``reaper_process``) see to it that nothing is left when a process is killed. ``disk_space`` says
which disk is full.
"""
