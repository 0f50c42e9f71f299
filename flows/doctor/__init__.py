"""``storyframes doctor``: what is on this machine, what is missing, and what to do about it.

``machine`` puts all findings together and looks at what needs no pipeline (extras, processors, memory, disks);
``extraction`` looks at engines, models, plug-ins and GPUs; ``findings`` is what a finding is, without home folders.
Nothing is downloaded, started or written; only the configured Prefect server is asked over the network.
"""
