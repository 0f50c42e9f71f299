"""``storyframes doctor``: what is on this machine, what is lacking, and what to do about it.

``examine`` puts it together; ``findings`` is what is told, with no home folder named. ``machine`` looks at
processors, memory and disks, ``install`` at what is installed, ``extraction`` at engines, models and plug-ins,
``prefect_server`` at the server. Nothing is downloaded, started or written; the one question that leaves the machine
is to the Prefect server that is configured.
"""
