"""The imports of a worker up to its first unit: local workers are forked from a process that has made them.

Nothing here may start a thread, open a connection or compute (torch, OpenVINO): a fork does not copy threads. Nor may
it import ``numpy.random``, whose global generator would be the same in every worker.
"""

from __future__ import annotations

import gc

gc.disable()  # a fifth of the time of so many imports

import distributed  # noqa: E402, F401 - after gc.disable(), as all of these
import prefect.task_engine  # noqa: E402, F401
import prefect_dask  # noqa: E402, F401
from prefect.context import hydrated_context  # noqa: E402

import flows.clusters.dask_parts  # noqa: E402
import flows.study  # noqa: E402, F401

with hydrated_context():  # builds Prefect's models
    pass
gc.freeze()  # workers share this memory and never search it for garbage
gc.enable()
