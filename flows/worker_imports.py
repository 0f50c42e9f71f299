"""The imports of a worker up to its first unit: local workers are forked from a process that has made them.

Nothing here may start a thread, open a connection or compute (torch, OpenVINO): a fork does not copy threads. Plug-ins
that are installed are imported as well, and this holds for them (docs/extending.md).
"""

from __future__ import annotations

import gc
import os
import sys

gc.disable()  # a fifth of the time of so many imports

import distributed  # noqa: E402, F401 - after gc.disable(), as all of these
import prefect.task_engine  # noqa: E402, F401
import prefect_dask  # noqa: E402, F401
from prefect.context import hydrated_context  # noqa: E402

import flows.clusters.dask_parts  # noqa: E402
import flows.study  # noqa: E402, F401

with hydrated_context():  # builds Prefect's models
    pass


def _seed_numpy() -> None:
    """Give this process random numbers of its own where a plug-in has imported their generator, which a fork copies."""
    if generator := sys.modules.get("numpy.random"):
        generator.seed()


os.register_at_fork(after_in_child=_seed_numpy)
gc.freeze()  # workers share this memory and never search it for garbage
gc.enable()
