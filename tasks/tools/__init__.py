"""Programs that run beside this process and never outlive it.

``containers`` runs one command in podman or docker, ``hpc_engines`` in what clusters have instead, and finds the engine
to use. ``tool_process`` runs a command on this machine. The programs ``parent_death`` and ``reaper_process``
clean up when this process is killed. ``patience`` says how long to wait for processes on a busy machine, ``disk_space``
which disk is full.
"""
