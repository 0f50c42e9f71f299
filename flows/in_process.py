"""Doing units in this process, one after the other: without Prefect, without Dask, with no port open.

A run from the command line does so where a server and workers would take longer to start than they save
(:func:`is_faster_alone`); ``storyframes.extract`` always does (:mod:`flows.one_file`).

A crash in native code, or the kernel out of memory, ends this process with the run; in a worker it costs one unit. So
:class:`Claims` tell the next run which unit that was, and that run begins it last.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from flows.clusters.settings import LocalCluster
from flows.gather import UNKNOWN_S, Bundle, Executor, Gather, O, Unit
from flows.run import Run
from storyframes.store.storage import Storage, StorageError
from storyframes.store.storage.files import TEMPORARY_SUFFIX
from storyframes.store.storage.locks import HeldError
from storyframes.store.storage.processes import ProcessIdentity
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.frame_pass import contained
from tasks.failures import error_kind
from tasks.planning.units import on_all_processors

START_S = 12.0  # seconds until a server and workers have begun (docs/performance.md)
CLAIM_WAIT_S = 3600.0  # for another process at the same unit; then it is given up
_LOOK_EVERY_S = 1.0
MOST_S = 120.0  # CPU-seconds of a run that a crash may cost, where it was not asked for one process


def attempt(unit: Unit[O]) -> tuple[O, ...] | str:
    """The outcomes of a unit, or in words why it has none; what it raises is its own fault alone."""
    try:
        return tuple(unit.do())
    except BaseException as error:
        contained(error)  # raises again what may be a signal's
        return f"the task raised {error_kind(error)}"  # its text may quote what a participant said


class NotBegunError(Exception):
    """A unit cannot begin now.

    Attributes:
        outcomes: of the unit.
    """

    def __init__(self, outcomes: Sequence[Any]) -> None:
        super().__init__()
        self.outcomes = tuple(outcomes)


class InThisProcess(Executor[O]):
    """Bundles that are done in this process, one after the other.

    Args:
        begins: called with each unit before it is done; it may raise :class:`NotBegunError`.
        thread: does the units, so that a signal is heeded at once, also in the middle of native code, and a plug-in
            that ends its process ends its feature alone. Without it they are done where they are submitted.
    """

    worth_s = 0.0  # giving them out costs nothing, and each is reported when it has ended

    def __init__(self, begins: Callable[[Any], None], thread: ThreadPoolExecutor | None = None) -> None:
        self._begins = begins
        self._thread = thread

    def kind_of(self, needs: object) -> str:
        return "here"

    def capacity(self, needs: object) -> int:
        return 1

    def submit(self, bundle: Bundle[O], rank: int) -> Future[list[tuple[O, ...] | str]]:
        if self._thread:
            return self._thread.submit(self._do, bundle)
        ended: Future[list[tuple[O, ...] | str]] = Future()
        ended.set_result(self._do(bundle))
        return ended

    def _do(self, bundle: Bundle[O]) -> list[tuple[O, ...] | str]:
        ended: list[tuple[O, ...] | str] = []
        for unit in bundle.units:
            try:
                self._begins(unit)
            except NotBegunError as error:
                ended.append(error.outcomes)
                continue
            ended.append(attempt(unit))
        return ended

    def read(self, future: Any, bundle: Bundle[O]) -> Sequence[Sequence[O]]:
        return [
            unit.lost(answer) if isinstance(answer, str) else answer
            for unit, answer in zip(bundle.units, future.result(), strict=True)
        ]


def do_in_process(
    units: Sequence[Unit[O]],
    begins: Callable[[Any], None],
    settled: Callable[[O], None] = lambda _: None,
    thread: ThreadPoolExecutor | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> list[O]:
    """The outcomes of units that are done here; arguments are those of :class:`InThisProcess` and ``Gather``."""
    executor: InThisProcess[O] = InThisProcess(begins, thread)
    return Gather(executor, settled, at_once=1, warn=warn).run(units)


def is_faster_alone(run: Run) -> bool:
    """Whether this process alone is done no later than workers of this machine, by the planned costs.

    With one processor it is. With more, networks use all of them here too, and the rest does not.
    """
    cluster = run.cluster
    if not isinstance(cluster, LocalCluster):
        return False
    if run.request.workers == 1 or cluster.processors == 1:
        return not cluster.gpus or run.request.workers == 1
    cpus, costs = cluster.processors, [unit.cost or UNKNOWN_S for unit in run.plan.units]
    widened = on_all_processors(run.plan.units, cpus)
    here_s = sum(
        cost / (unit.needs.get("CPU", 1) if wide is unit else cpus)
        for cost, unit, wide in zip(costs, run.plan.units, widened, strict=True)
    )
    there_s = START_S + max(sum(costs) / cpus, max(costs))
    return not cluster.gpus and sum(costs) <= MOST_S and here_s <= there_s


def perform_in_process(run: Run) -> list[Outcome]:
    """Extract what the run has planned, and report the outcomes to its progress."""
    cluster = run.cluster
    assert isinstance(cluster, LocalCluster)
    run.progress.planned(*run.plan.counts)
    claims = Claims(run.storage, run.progress.warned)
    units = on_all_processors(claims.deadly_last(run.plan.units), cluster.processors)
    with _as_a_worker(cluster), contextlib.ExitStack() as stack:
        thread = ThreadPoolExecutor(1, "extract")
        stack.callback(thread.shutdown, wait=False, cancel_futures=True)
        # What a batch system ended is begun last, as what killed its process: else it would hold up all others again.
        stack.push(lambda kind, *_: claims.close() if kind is not SystemExit or run.request.part is None else None)
        return do_in_process(units, claims.begin, run.progress.finished, thread, run.progress.warned)


_PREFIX = ".unit-"
_DIED = "the process that extracted it died (out of memory, a crash in native code, or the end of its job?)"


class Claims:
    """A locked file in the store for the unit at hand, by which no other process does the same at the same time.

    One that is left, and not locked, says at which unit a process died. In a folder only: nothing in an object store
    says whether a writer is alive.

    Args:
        warn: called with a line about another process.
        wait_s: how long another process at the same unit is waited for, after everything else is done.
    """

    def __init__(self, storage: Storage, warn: Callable[[str], None], wait_s: float = CLAIM_WAIT_S) -> None:
        self._storage = storage
        self._warn = warn
        self._wait_s = wait_s
        self._postponed: set[str] = set()
        self._claim = contextlib.ExitStack()

    def deadly_last(self, units: Sequence[ExtractionUnit]) -> list[ExtractionUnit]:
        """The units, last those at which a process died; until they are done, the store says why they are not.

        A clock is made before the features in whose pass a process died. In an object store nothing says where one
        died, so there each clock is made first.
        """
        folder, left = self._storage.local(""), set()
        if folder is None:
            return [part for unit in units for part in unit.apart()]
        for path in folder.glob(f"{_PREFIX}*{TEMPORARY_SUFFIX}"):
            with contextlib.suppress(OSError), self._storage.abandoned(path.name) as abandoned:
                if abandoned:
                    left.add(path.read_text(errors="replace").partition("\n")[0])
        deadly = [unit for unit in units if unit.name in left]
        for unit in deadly:
            unit.lost(_DIED)
            self._warn(f"{unit.name}: {_DIED}: it is tried again, last")
        apart: list[ExtractionUnit] = []
        for unit in deadly:
            parts = unit.apart()
            if len(parts) > 1:  # which have claims of their own
                with contextlib.suppress(OSError), self._storage.kept(_claim_of(unit), b"", wait=False):
                    """So it is removed."""
            apart += parts
        return [unit for unit in units if unit not in deadly] + apart

    def begin(self, unit: ExtractionUnit) -> None:
        """This unit is at hand, and the one before has ended.

        Raises:
            NotBegunError: another process is at it. The first time it is to be tried again when the others are done;
                then it is waited for, and at last given up.
        """
        self.close()
        if not self._storage.local(""):
            return
        path = _claim_of(unit)
        began = time.monotonic()
        warned = False
        while True:
            try:
                mark = f"{unit.name}\n{_this_process()}".encode()
                self._claim.enter_context(self._storage.kept(path, mark, wait=False))
                return
            except HeldError:
                holder = _holder(self._storage, path)
            except OSError:  # a full disk, of which the unit's outcome tells
                return
            if unit.name not in self._postponed:
                self._postponed.add(unit.name)
                self._warn(f"{unit.name}: {holder} is at it: it is tried again when the others are done")
                raise NotBegunError(unit.unrecorded(f"{holder} is at it", transient=True))
            if not warned:
                warned = True
                self._warn(f"{unit.name}: {holder} is at it; waiting for at most {self._wait_s / 60:.0f} min")
            if time.monotonic() - began >= self._wait_s:
                raise NotBegunError(
                    unit.unrecorded(
                        f"{holder} is at it, and was waited for for {self._wait_s / 60:.0f} min: end it if it hangs, "
                        "then extract again"
                    )
                )
            time.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        """No unit is at hand."""
        self._claim.close()


def _claim_of(unit: ExtractionUnit) -> str:
    return f"{_PREFIX}{hashlib.sha256(unit.name.encode()).hexdigest()[:32]}{TEMPORARY_SUFFIX}"


def _this_process() -> str:
    import pwd  # Windows has none, and the commands that refuse to write there import this module

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user without a name
        user = str(os.geteuid())
    return f"{ProcessIdentity.this_process().text()} {user} {socket.gethostname()}"


def _holder(storage: Storage, path: str) -> str:
    """The process that has claimed a unit, for a message."""
    try:
        identity, user, host = (storage.read(path) or b"").decode(errors="replace").split("\n")[1].split(" ")
    except (StorageError, ValueError, IndexError):  # of an older version, or it is just being written
        return "another process"
    process = ProcessIdentity.parse(identity)
    pid = process.pid if process else "?"
    stopped = f", which is stopped (kill -CONT {pid} lets it go on)," if process and process.is_stopped else ""
    return f"another process ({pid} of {user} on {host}){stopped}"


@contextlib.contextmanager
def _as_a_worker(cluster: LocalCluster) -> Iterator[None]:
    """What a worker's process has in its environment; libraries read it when they are imported."""
    given = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    if not cluster.gpus:
        given["CUDA_VISIBLE_DEVICES"] = ""  # nothing computes on a GPU unasked
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
