"""Transcribing on a cluster, as a Prefect flow: a task for each session, with a GPU or a processor.

A worker reads the study and writes the transcripts itself, so no word travels through Prefect or Dask; what comes back
are numbers. The tables are changed by the command, when all tasks have ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from prefect import flow
from prefect.states import State

from flows import ClusterWork, WorkerCheck, load_cluster, work_on_cluster
from storyframes import MAIN
from storyframes_transcribe.models import ModelError, find_model
from storyframes_transcribe.recordings import plan_sessions
from storyframes_transcribe.session import Outcome, Status, Transcriber
from storyframes_transcribe.settings import Device, TranscribeSettings
from storyframes_transcribe.transcript_file import FOLDER
from storyframes_transcribe.whisper import LIBRARIES, Whisper
from tasks.media import StreamChoice
from tasks.study import load_study

_ELSEWHERE = "a worker says that it is written, but it is not in the study: mount the same folder there"


@dataclass(frozen=True)
class SessionUnit:
    """One session.

    Attributes:
        root: the study, where the workers see it under the same path.
        tracks: only these, see :func:`~storyframes_transcribe.recordings.plan_sessions`.
        model_sha256: what the model has to be.
        streams: which picture and which sound of files that have several.
    """

    root: Path
    session_id: str
    tracks: tuple[str, ...]
    settings: TranscribeSettings
    model_sha256: str
    streams: StreamChoice = StreamChoice.FIRST

    @property
    def name(self) -> str:
        return self.session_id

    @property
    def makes(self) -> tuple[str, ...]:
        return (self.session_id,)

    @property
    def awaits(self) -> tuple[str, ...]:
        return ()

    @property
    def needs(self) -> Mapping[str, float]:
        """What it takes of a worker."""
        return {"GPU": 1} if self.settings.device is Device.CUDA else {"CPU": max(self.settings.cpus, 1)}

    @property
    def cost(self) -> float:
        """It takes minutes, so it is a task of its own."""
        return math.inf

    def do(self) -> tuple[Outcome, ...]:
        """Transcribe it; the model stays loaded for the next one."""
        settings = self.settings.model_copy(update={"cpus": max(self.settings.cpus, 1)})
        study, model = load_study(self.root), find_model(settings.model)
        if model.sha256 != self.model_sha256:
            return self.lost(f"the model {model.name} is another one on this worker")
        transcriber = Transcriber(
            study,
            settings,
            model,
            hear=lambda piece, language: _loaded(settings).hear(piece, language),
            listen=lambda samples: _loaded(settings).listen(samples),
            streams=self.streams,
        )
        (plan,) = plan_sessions(study, [self.session_id], self.tracks)
        return tuple(transcriber.transcribe(plan))

    def left_behind(self) -> None:
        """What is there is found by the next run."""

    def apart(self) -> tuple[SessionUnit]:
        """It has no parts."""
        return (self,)

    def lost(self, reason: str) -> tuple[Outcome, ...]:
        """Its outcome where its worker could not say it."""
        return (Outcome(self.session_id, MAIN, Status.FAILED, reason=reason),)


@cache
def _loaded(settings: TranscribeSettings) -> Whisper:
    return Whisper(find_model(settings.model), settings)


@dataclass(frozen=True)
class TranscriptionResult:
    """What a run did."""

    outcomes: tuple[Outcome, ...]

    def __str__(self) -> str:
        made = sum(outcome.status is Status.MADE for outcome in self.outcomes)
        return f"{made} transcripts made, {sum(outcome.failed for outcome in self.outcomes)} failed"


@flow(name="transcribe", persist_result=False)
def go_on(run_id: str) -> State:
    """Go on with a run that this process has prepared, see :func:`flows.cli.run_work`."""
    return work_on_cluster(run_id)


def transcription(
    units: Sequence[SessionUnit], cluster: str, report: Callable[[Outcome | str], None]
) -> ClusterWork[Outcome]:
    """The work of a run.

    Args:
        cluster: see :func:`flows.load_cluster`.
        report: called with each outcome, and with warnings.
    """
    root, lacks = units[0].root, partial(problems_here, units[0])
    return ClusterWork(
        name="transcribe",
        units=units,
        cluster=load_cluster(cluster),
        check=lambda: WorkerCheck(root / FOLDER, "folder of transcripts", LIBRARIES, "storyframes_transcribe", lacks),
        doubts=lambda outcomes: {outcome: _ELSEWHERE for outcome in outcomes if _is_gone(root, outcome)},
        result=lambda outcomes, _: TranscriptionResult(tuple(outcomes)),
        report=report,
    )


def _is_gone(root: Path, outcome: Outcome) -> bool:
    return outcome.is_there and not (root / outcome.path).is_file()


def problems_here(unit: SessionUnit) -> list[str]:
    """What this process lacks for transcribing."""
    found = []
    try:
        if find_model(unit.settings.model).sha256 != unit.model_sha256:
            found.append(f"its model {unit.settings.model} is another one than the flow's")
    except ModelError as error:
        found.append(str(error))
    return found
