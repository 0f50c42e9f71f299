"""What units are done on.

``settings`` (a cluster's YAML) → ``dask_cluster`` (a scheduler, of whichever kind: on this machine, by ``slurm``, by
``kubernetes``, or one that is running already). ``connection`` is how one is let in and what its workers have,
``dask_parts`` are Dask's processes as they run here. ``job_arrays`` are scripts of a batch system for parts that run
alone. ``admission`` asks the workers, those that join later too, whether they can do the units: whether they work with
the same as the flow (``installation``), and what ``preflight`` says that units of extraction need.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from flows.clusters.admission import admit_workers, plug_in_problems
    from flows.clusters.connection import ClusterError, Connection
    from flows.clusters.installation import Installation
    from flows.clusters.preflight import blind_to, unreachable_from_here
    from flows.clusters.settings import ClusterSettings, ClusterSettingsError, load_cluster

__all__ = [
    "ClusterError",
    "ClusterSettings",
    "ClusterSettingsError",
    "Connection",
    "Installation",
    "admit_workers",
    "blind_to",
    "load_cluster",
    "plug_in_problems",
    "unreachable_from_here",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "admission": "admit_workers plug_in_problems",
        "connection": "ClusterError Connection",
        "installation": "Installation",
        "preflight": "blind_to unreachable_from_here",
        "settings": "ClusterSettings ClusterSettingsError load_cluster",
    },
)
