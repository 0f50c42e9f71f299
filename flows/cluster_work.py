"""Work of plug-ins on a cluster: units of their own within a Prefect flow, done by workers that can do them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic

from prefect import get_run_logger
from prefect.settings import PREFECT_API_URL
from prefect.states import Failed, State

from flows.clusters.admission import admit_workers, plug_in_problems
from flows.clusters.connection import ClusterError, Connection
from flows.clusters.installation import Installation
from flows.clusters.preflight import blind_to, unreachable_from_here
from flows.clusters.settings import ClusterSettings, ClusterSettingsError
from flows.gather import O, Unit
from flows.interruption import heeded
from flows.on_cluster import do_on_cluster, unit_task
from flows.run import end_state, registered_run
from flows.server.artifacts import ProgressArtifact
from flows.settings import SettingsError
from storyframes.store.layout import RunMark, StoreError, leave_mark, open_storage
from storyframes.store.storage import StorageError
from storyframes.store.storage.processes import keep_private

_REFUSALS: tuple[type[Exception], ...] = (SettingsError, ClusterSettingsError, ClusterError, StoreError, StorageError)


@dataclass(frozen=True)
class WorkerCheck:
    """What every worker must have.

    Attributes:
        folder: that units write into; a worker has to see the same one. It is made where it does not exist.
        folder_name: its name in messages.
        libraries: distributions on which the results depend.
        package: of the plug-in.
        lacks: asked in each worker: why it cannot do the work, nothing where it can.
    """

    folder: Path
    folder_name: str
    libraries: Sequence[str]
    package: str
    lacks: Callable[[], list[str]]

    def problems_here(self, mark: RunMark, api: str) -> list[str]:
        """Why this process cannot do the work of a run that left this mark and whose server has this URL."""
        return [*self.lacks(), *blind_to(mark, self.folder_name), *unreachable_from_here(api)]


@dataclass(frozen=True, kw_only=True)
class ClusterWork(Generic[O]):
    """Units of a plug-in that are checked and ready to be done on a cluster.

    Attributes:
        name: of the units' tasks on the Prefect server.
        units: in the order in which they should begin, see :class:`flows.gather.Unit`.
        check: makes what every worker is asked, when the cluster is there.
        doubts: of the outcomes that workers report, those that this process does not find to be so, with the reason.
        result: makes the run's result from all outcomes and the seconds that they took, within the flow. Its text is
            the message of the end state.
        report: called with each outcome as it becomes final, and with warnings.
        unit_name: what a unit is called in the run's progress on the Prefect server; "" for no progress.
    """

    name: str
    units: Sequence[Unit[O]]
    cluster: ClusterSettings
    check: Callable[[], WorkerCheck]
    doubts: Callable[[Sequence[O]], Mapping[O, str]]
    result: Callable[[Sequence[O], float], object]
    report: Callable[[O | str], None] = lambda _: None
    unit_name: str = ""

    def do(self) -> State:
        """Do the units; within a flow.

        Returns:
            Completed; PartialSuccess where some outcomes failed; Failed where all did. Its data is the result.

        Raises:
            ClusterError: the cluster cannot do these units; none of them was started.
            StorageError: the folder of :class:`WorkerCheck` cannot be written to.
        """
        logger, began = get_run_logger(), time.monotonic()
        progress = ProgressArtifact(len(self.units), unit=self.unit_name) if self.unit_name else None

        def settled(outcome: O) -> None:
            if progress:
                progress.finished(failed=outcome.failed)
            self.report(outcome)

        def warn(line: str) -> None:
            logger.warning("%s", line)
            self.report(line)

        outcomes = do_on_cluster(
            self.units,
            self.cluster,
            task=unit_task(self.name),
            admit=self._only_able,
            doubts=self.doubts,
            settled=settled,
            warn=warn,
        )
        failed = sum(outcome.failed for outcome in outcomes)
        result = self.result(outcomes, time.monotonic() - began)
        return end_state(result, good=not failed, in_part=failed < len(outcomes))

    @contextmanager
    def _only_able(self, connection: Connection, _: Sequence[Any], warn: Callable[[str], None]) -> Iterator[None]:
        """Ask every worker, now and while the block runs when it joins."""
        check = self.check()
        check.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with leave_mark(open_storage(check.folder)) as mark:
            question = pickle.dumps(partial(check.problems_here, mark, PREFECT_API_URL.value() or ""))
            installation = Installation.of_this_process(check.libraries, [check.package])
            with admit_workers(connection, partial(plug_in_problems, installation, question), warn):
                yield


def work_on_cluster(work: str | Callable[[], ClusterWork[O]], *refusals: type[Exception]) -> State:
    """Do a plug-in's work within its flow.

    Args:
        work: makes it, or the id that :func:`flows.cli.run_work` gives to the flow.
        refusals: what else ``work`` raises where the work cannot be done.

    Returns:
        The state of :meth:`ClusterWork.do`; Failed, with a message, where the work cannot be done.
    """
    expected = _REFUSALS + refusals
    keep_private()
    try:
        with heeded():
            prepared: ClusterWork[O] = registered_run(work) if isinstance(work, str) else work()
            return prepared.do()
    except expected as error:
        return Failed(message=str(error))
