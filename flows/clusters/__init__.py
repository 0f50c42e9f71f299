"""What the work runs on.

``settings`` (a cluster's YAML) → ``dask_cluster`` (a scheduler, of whichever kind) → ``local``, ``address``,
``slurm`` with ``slurm_certificates``, ``kubernetes``. ``workers`` says how much they do at the same time. They stand on
``needs`` (what a task asks of a worker),
``connection`` (how one is let in) and ``dask_parts`` (Dask's processes as they run here). ``admission`` asks
the workers, those that join later too, whether they can do the work: what ``preflight`` says,
and by ``installation`` whether they work with the same as the flow.
"""
