"""What units are done on.

``settings`` (a cluster's YAML) → ``dask_cluster`` (a scheduler, of whichever kind) → ``local``, ``slurm``,
``kubernetes``, or a scheduler that is running already. ``connection`` is how one is let in and what its workers have,
``dask_parts`` are Dask's processes as they run here. ``admission`` asks the workers, those that join later too, whether
they can do the units and work with the same installation as the flow; ``preflight`` says what units of
extraction need.
"""
