"""What units are done on.

``settings`` (a cluster's YAML) → ``dask_cluster`` (a scheduler, of whichever kind: on this machine, by ``slurm``, by
``kubernetes``, or one that is running already). ``connection`` is how one is let in and what its workers have,
``dask_parts`` are Dask's processes as they run here. ``job_arrays`` are scripts of a batch system for parts that run
alone. ``admission`` asks the workers, those that join later too, whether they can do the units: whether they work with
the same as the flow (``installation``), and what ``preflight`` says that units of extraction need.
"""
