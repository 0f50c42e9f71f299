"""One run, from what is asked for to its result: a value that each step is given.

``open_run`` checks and reads, ``planned`` compares with the store, :func:`flows.study.perform` does the units that are
due, ``conclude`` writes the tables. Nothing here imports Prefect: the command line opens and plans a run before it
starts a server, and where nothing is due it needs none.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from flows.clusters.connection import check_units
from flows.clusters.settings import ClusterSettings, LocalCluster, Slurm
from flows.part_records import Expected, check_walltime
from flows.request import ExtractionRequest
from flows.settings import Settings, check_labels
from storyframes.store.layout import ClipFormatError, StoreError, create_store, open_store
from storyframes.store.records import Status, canonical_json
from storyframes.store.storage import Storage, scratch
from tasks.clip_index.kept_index import IndexSummary, digest_of_inputs, kept_index
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.availability import check_tools
from tasks.planning.parts import deal, session_costs
from tasks.planning.plan import Plan, plan_extraction
from tasks.planning.selection import Selection, SelectionError
from tasks.planning.sources import curve_features
from tasks.study.labels import listed
from tasks.study.load import Study, load_study
from tasks.study.study_identity import remember_study

if TYPE_CHECKING:
    from prefect.states import State


class Progress:
    """Where a run reports its progress; this one reports it nowhere."""

    def planning(self, session_id: str, number: int, count: int) -> None:
        """This session is being planned."""

    def planned(self, due: int, idle: int, impossible: int) -> None:
        """So many features are due, so many need nothing done, and so many cannot be made: a file is missing."""

    def finished(self, outcome: Outcome) -> None:
        """An outcome is final."""

    def warned(self, line: str) -> None:
        """Something is wrong, and the run goes on; called from any thread."""


@dataclass(frozen=True)
class Run:
    """A run of extraction.

    Attributes:
        request: what it is asked to do.
        settings: the configuration, as it was when the run was opened.
        study: the tables, as they were then.
        storage: the feature store; where another folder takes its place (a disk is unmounted), it refuses to write.
        progress: where it reports its progress.
        plan: what is due and what is not; empty until the run is planned.
        dealt: of a part, digest of which sessions every part has.
        began: by :func:`time.monotonic`, when planning began.
    """

    request: ExtractionRequest
    settings: Settings
    study: Study
    storage: Storage
    progress: Progress
    plan: Plan = field(default_factory=Plan)
    dealt: str = ""
    began: float = 0.0

    @property
    def cluster(self) -> ClusterSettings:
        """What its units are done on."""
        return self.settings.cluster


def open_run(request: ExtractionRequest, progress: Progress | None = None) -> Run:
    """Read and check what a run needs; makes the feature store where there is none, and notes which study it is of.

    Raises:
        StudyError, StudyFileError, SettingsError, ClusterSettingsError, SelectionError, MissingToolError, StoreError,
            StorageError: what is asked for cannot be done; nothing was started.
    """
    settings = request.load_settings()
    study = load_study(request.study, recordings=settings.recording.root)
    study.require_recordings()
    check_labels(settings, study)
    request.selection.check(study, settings, curve_features(study, settings.labels))
    check_tools(settings, request.selection.only)
    storage = create_store(request.features)
    folder = storage.local("")
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"{folder} cannot be written to: it is another user's, or on a read-only file system")
    remember_study(storage, study, replace=request.replace_study)
    return Run(request, settings, study, storage.pinned(make_id=True), progress or Progress())


def planned(run: Run) -> Run:
    """The run with its plan.

    What is due is so at this moment: a unit looks again before it extracts anything, so nothing is lost if another run
    makes it meanwhile.

    Raises:
        StorageError: the feature store cannot be read.
        ClusterError: a unit needs more than a worker of the cluster has, or takes longer than a job of it may, see
            :func:`flows.part_records.check_walltime`.
    """
    began = time.monotonic()
    scratch.sweep()  # what an earlier run left on this machine when it was killed
    settings, (selection, dealt) = run.settings, selection_of(run)
    if selection.session_ids == ():  # there are more parts than sessions
        return replace(run, dealt=dealt, began=began)
    cpus = run.cluster.processors if isinstance(run.cluster, LocalCluster) else 1
    plan = plan_extraction(run.study, run.storage, settings, selection, run.progress.planning, cpus, settings.labels)
    check_units(plan.units, run.cluster)
    if isinstance(run.cluster, Slurm):
        check_walltime(run.storage, run.cluster.walltime_s, map(_expected, plan.units))
    return replace(run, plan=plan, dealt=dealt, began=began)


def _expected(unit: ExtractionUnit) -> Expected:
    features = frozenset(feature for track in unit.tracks for feature in track.features)
    cpus = int(max(1, unit.needs.get("CPU", 1)))
    return Expected(unit.name, features, unit.cost, cpus, gpu="GPU" in unit.needs)


def selection_of(run: Run) -> tuple[Selection, str]:
    """What the run is asked for; of a part, the sessions that are dealt to it, and a digest of how all were dealt."""
    selection = run.request.selection
    if run.request.part is None:
        return selection, ""
    number, parts = map(int, run.request.part.split("/"))
    if number > parts:
        raise SelectionError(f"--part {run.request.part}: there are {parts} parts, the last is {parts}/{parts}")
    dealt = deal(session_costs(run.study, run.settings.resolved(), selection), parts)
    digest = hashlib.sha256(canonical_json(dealt)).hexdigest()[:16]
    return replace(selection, session_ids=tuple(dealt[number - 1])), digest


@dataclass(frozen=True)
class RunResult:
    """What a run did."""

    outcomes: tuple[Outcome, ...]  # one for each session and feature asked for
    submitted: int  # how many units were submitted for those that were due
    clips: int  # rows of the clip index after it
    seconds: float  # how long it took
    problem: str = ""  # why the catalogue or the clip index could not be written; empty if they could
    # sessions asked for that give no clips because something is wrong with them, and what it is
    excluded: Mapping[str, str] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)  # by session, what is odd about its clips
    remarks: tuple[str, ...] = ()  # about the clip index as a whole

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failed)

    @property
    def good(self) -> bool:
        """Nothing failed."""
        return not self.failed and not self.problem and not self.excluded

    @property
    def extracted(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.DONE and not outcome.skipped)

    @property
    def up_to_date(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.DONE and outcome.skipped)

    @property
    def without_input(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status is Status.MISSING)

    def __str__(self) -> str:
        return (
            f"{len(self.extracted)} extracted, {len(self.up_to_date)} up to date, "
            f"{len(self.without_input)} without input, {len(self.failed)} failed"
            f"{self._without_clips()}{f'; {self.problem}' if self.problem else ''}"
        )

    def _without_clips(self) -> str:
        return f"; no clips of {listed(sorted(self.excluded))}" if self.excluded else ""

    def state(self) -> State:
        """Completed; PartialSuccess where some features failed or sessions have no clips; Failed where all failed.

        The result is its data.
        """
        return end_state(self, good=self.good, in_part=len(self.failed) < len(self.outcomes))


def conclude(run: Run, outcomes: Sequence[Outcome], warn: Callable[[str], None] = lambda _: None) -> RunResult:
    """Write the tables of what is published by now, and say what the run did.

    Args:
        outcomes: of the units that were due.
        warn: called with everything that is odd about the clips.
    """
    index, problem = write_tables(run)
    for session_id, reason in index.excluded.items():
        warn(f"{session_id} gives no clips: {reason}")
    for session_id, reason in index.warnings.items():
        warn(f"{session_id}: {reason}")
    for remark in index.remarks:
        warn(remark)
    asked = run.request.session_ids or tuple(run.study.sessions)
    excluded = {session_id: reason for session_id, reason in index.excluded.items() if session_id in asked}
    return RunResult(
        outcomes=(*run.plan.settled, *outcomes),
        submitted=len(run.plan.units),
        clips=index.clips,
        seconds=time.monotonic() - run.began,
        problem=problem,
        excluded=excluded,
        warnings=index.warnings,
        remarks=index.remarks,
    )


def write_tables(run: Run) -> tuple[IndexSummary, str]:
    """Write the catalogue and the clip index, unless nothing that they are made of changed.

    Gives the remarks about the index, and why they could not be written.
    """
    try:
        run.storage.check_place()  # it may have gone meanwhile, after days
        storage, made_of = open_store(run.request.features).pinned(run.storage.store_id), ""
        if not run.plan.units:
            made_of = digest_of_inputs(
                run.study, run.settings.clips, run.settings.labels, run.settings.recording.streams, storage
            )
            if (kept := kept_index(storage, made_of)) is not None:
                return kept, ""
        return _made_anew(run, storage, made_of), ""
    except ClipFormatError as error:
        return IndexSummary(), str(error)
    except OSError as error:  # a full disk; what was published stays, readers keep the older tables
        return IndexSummary(), f"the catalogue and the clip index could not be written ({error}): extract again"


def _made_anew(run: Run, storage: Storage, made_of: str) -> IndexSummary:
    """Write both; ``made_of`` is noted if the catalogue was made of it already."""
    from storyframes.store import catalogue  # with pandas and Arrow a third of a second
    from storyframes.store.feature_store import FeatureStore
    from tasks.clip_index.index import update_clip_index

    is_same = catalogue.compact(storage, (made for unit in run.plan.units for made in unit.makes))
    store, settings = FeatureStore(run.request.features), run.settings
    store.storage = storage  # which writes where the run did, and nowhere else
    made_of = made_of if is_same else ""
    streams = settings.recording.streams
    return update_clip_index(
        run.study, settings.clips, store, settings.labels, made_of=made_of, streams=streams
    ).summary


def result_without(run: Run, why: str) -> RunResult:
    """The result of a run that could not go on: the tables are written from what was published."""
    index, problem = write_tables(run)
    return RunResult((), 0, index.clips, 0.0, "; ".join(filter(None, (why, problem))))


def end_state(result: object, *, good: bool, in_part: bool) -> State:
    """The state that a run ends in; its message is the result as text, its data the result.

    Args:
        good: nothing failed.
        in_part: something was done, though not all.
    """
    from prefect.states import Completed, Failed  # a second, which a run without a flow does not wait for

    if good:
        return Completed(message=str(result), data=result)
    name = "PartialSuccess" if in_part else "Failed"
    return Failed(name=name, message=str(result), data=IncompleteError(result))


class IncompleteError(Exception):
    """What a run that failed, or did in part, ends with.

    An exception, because a failed flow that Prefect runs as a process ends with its data as its error: of anything else
    the log gets a TypeError that spells out every outcome.
    """

    def __init__(self, result: object) -> None:
        super().__init__(str(result))
        self.result = result


class RefusedError(Exception):
    """What a flow ends with where what was asked for cannot be done, so that the command ends with 2."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def result_of(state: State) -> Any:
    """The data of a state of this process, whatever the state's type."""
    data = getattr(state.data, "result", state.data)
    return data.result if isinstance(data, IncompleteError) else data


_open_runs: dict[str, Any] = {}


@contextmanager
def registered(run: Any) -> Iterator[str]:
    """The id under which :func:`registered_run` finds a run of this process while the block runs.

    A flow's parameters go to Prefect's server, which must hold neither a study nor a terminal: so a flow that goes on
    with a run of its process is given the run's id.
    """
    run_id = str(uuid4())
    _open_runs[run_id] = run
    try:
        yield run_id
    finally:
        del _open_runs[run_id]


def registered_run(run_id: str) -> Any:
    """The run that :func:`registered` holds under this id.

    Raises:
        KeyError: this process has none.
    """
    return _open_runs[run_id]
