"""What the work runs on.

``settings`` (a cluster's YAML) → ``dask_cluster`` (a scheduler, of whichever kind) → ``local``, ``address``,
``slurm`` with ``slurm_certificates``, ``kubernetes``. ``workers`` says how much they do at the same time. They stand on
``needs`` (what a task asks of a worker),
``connection`` (how one is let in) and ``dask_parts`` (Dask's processes as they run here). ``preflight`` and
``training_preflight`` ask the workers whether they can do the work.
"""
