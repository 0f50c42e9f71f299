"""What runs, in which order, on what: Prefect flows, the cluster they run on, and the command line.

``in_process`` needs neither: it does the units of a small run, and those of ``one_file`` (``storyframes.extract``).
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from flows.interruption import heeded, leave_at_once, promise
    from flows.on_cluster import do_on_cluster, unit_task
    from flows.progress import progress_bar
    from flows.request import ExtractionRequest
    from flows.run import end_state, registered_run
    from flows.server.artifacts import ProgressArtifact
    from flows.server.prefect_server import ServerLostError
    from flows.settings import SettingsError, load_settings
    from flows.study import extract_study

__all__ = [
    "ExtractionRequest",
    "ProgressArtifact",
    "ServerLostError",
    "SettingsError",
    "do_on_cluster",
    "end_state",
    "extract_study",
    "heeded",
    "leave_at_once",
    "load_settings",
    "progress_bar",
    "promise",
    "registered_run",
    "unit_task",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "interruption": "heeded leave_at_once promise",
        "on_cluster": "do_on_cluster unit_task",
        "progress": "progress_bar",
        "request": "ExtractionRequest",
        "run": "end_state registered_run",
        "server.artifacts": "ProgressArtifact",
        "server.prefect_server": "ServerLostError",
        "settings": "SettingsError load_settings",
        "study": "extract_study",
    },
)
