"""What units are done on.

``settings`` (a cluster's YAML) → ``dask_cluster`` (a scheduler, of whichever kind) → ``local``, ``slurm``,
``kubernetes``, or a scheduler that is running already. ``connection`` is how one is let in and what its workers have,
``dask_parts`` are Dask's processes as they run here. ``admission`` asks the workers, those that join later too, whether
they can do the units: by ``installation`` whether they work with the same as the flow, and what ``preflight`` says that
units of extraction need.
"""
