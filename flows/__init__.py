"""What runs, in which order, on what: Prefect flows, the cluster they run on, and the command line.

``in_process`` needs neither: it does the units of a small run, and those of ``one_file`` (``storyframes.extract``).
``cluster_work`` does units of plug-ins on a cluster.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from flows.cluster_work import ClusterWork, WorkerCheck, work_on_cluster
    from flows.clusters.settings import load_cluster
    from flows.interruption import promise
    from flows.progress import progress_bar
    from flows.request import ExtractionRequest
    from flows.settings import load_settings
    from flows.study import extract_study

__all__ = [
    "ClusterWork",
    "ExtractionRequest",
    "WorkerCheck",
    "extract_study",
    "load_cluster",
    "load_settings",
    "progress_bar",
    "promise",
    "work_on_cluster",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "cluster_work": "ClusterWork WorkerCheck work_on_cluster",
        "clusters.settings": "load_cluster",
        "interruption": "promise",
        "progress": "progress_bar",
        "request": "ExtractionRequest",
        "settings": "load_settings",
        "study": "extract_study",
    },
)
