"""A part of an array at work: it is compared with the other parts when it begins, and notes how far it is.

Parts know nothing of each other, so only the store says with which configuration and which code the others work.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Self

from flows.clusters.installation import VALUES_DEPEND_ON, Installation
from flows.clusters.settings import LocalCluster
from flows.part_records import UNKNOWN, MadeWith, PartArray, PartState, begin_part, note_part
from flows.request import ExtractionRequest
from flows.run import Progress, Run
from flows.settings import Settings
from storyframes.features import STORIES
from storyframes.spec import LABEL_PREFIX, is_label_curve
from storyframes.store.records import Caveat, Status, canonical_json
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.base import Extractor, Input
from tasks.extractors.registry import build_extractors
from tasks.planning.plan import Plan
from tasks.planning.selection import selected_extractors

_NOTE_EVERY_S = 10.0  # at most so often a part says in the store how far it is; it tries once, and never waits
_MISSED = 3  # notes in a row that are missed before it is said: of many parts, two often note at the same moment
_END_WAIT_S = 10.0  # for others to note, so that the end is noted where many parts end at once
_OWN = ("storyframes", "tasks", "flows")


def array_of(request: ExtractionRequest, settings: Settings) -> tuple[str, PartArray, int]:
    """The name of the array that a part belongs to, the array, and the part's number."""
    number, parts = map(int, (request.part or "1/1").split("/"))
    array = PartArray(parts=parts, features=list(request.only or settings.features))
    what = [*array.features, "", str(parts), *(request.session_ids or ()), "", *(request.tracks or ())]
    return hashlib.sha256("\0".join(what).encode()).hexdigest()[:16], array, number


def made_with(settings: Settings, features: Sequence[str]) -> MadeWith:
    """What decides the values of these features, and of those that they wait for, besides the recordings."""
    resolved = settings.resolved()
    by_scope = [build_extractors(resolved, session_id, may_download=False) for session_id in ("", STORIES)]
    extractors = [extractor for scope in by_scope for extractor in selected_extractors(scope, tuple(features)).values()]
    decides: dict[str, dict[str, Any] | None] = {extractor.name: _decides(extractor) for extractor in extractors}
    read = {Input(kind) for extractor in extractors for kind in extractor.inputs}
    sound = resolved.recording.sound_settings() if read & {Input.AUDIO, Input.MICROPHONES} else {}
    if Input.VIDEO in read or sound:
        decides["recording"] = resolved.recording.value_settings(of_pictures=True) | sound
    if Input.TRANSCRIPT in read:
        decides["transcript"] = resolved.transcript.model_dump(mode="json")
    for name in features:
        if is_label_curve(name):
            rule = settings.labels.get(name.removeprefix(LABEL_PREFIX))
            decides[f"labels.{name.removeprefix(LABEL_PREFIX)}"] = asdict(rule) if rule else {}
    libraries = {*VALUES_DEPEND_ON, *(library for extractor in extractors for library in extractor.libraries)}
    plug_ins = sorted({type(extractor).__module__.partition(".")[0] for extractor in extractors} - {*_OWN})
    return MadeWith(
        settings={
            name: UNKNOWN if decisions is None else hashlib.sha256(canonical_json(decisions)).hexdigest()[:16]
            for name, decisions in decides.items()
        },
        installation=Installation.of_this_process(libraries, plug_ins),
    )


def _decides(extractor: Extractor[Any]) -> dict[str, Any] | None:
    """The settings, models and tools that are part of the feature's fingerprint; None where one cannot be asked here.

    Then there is no fingerprint either, so this part extracts nothing of the feature that could mix.
    """
    try:
        return {
            "settings": dict(extractor.value_settings()),
            "models": dict(extractor.models()),
            "tools": dict(extractor.tools()),
        }
    except Exception:  # the attempt at the feature says what is missing
        return None


class NotedPart(Progress):
    """The progress of a part, also noted in the store for ``status`` and ``jobs``; a context manager.

    Entering it compares the part with those of its array that have begun.

    Attributes:
        differences: from what the other parts of the array were made with; they were allowed.

    Raises:
        MixedPartsError: on entering, there are differences, and they were not allowed.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._name, self._array, self._number = array_of(run.request, run.settings)
        self.differences: list[str] = []
        self._units = {made: unit for unit in run.plan.units for made in unit.makes}
        self._seconds: dict[str, tuple[ExtractionUnit, float]] = {}
        assert isinstance(run.cluster, LocalCluster)  # of a part, as the command sees to
        self._state = PartState(
            due=len(self._units),
            dealt=run.dealt,
            cpus=run.cluster.processors,
            made_with=made_with(run.settings, self._array.features),
        )
        self._noted_at = 0.0
        self._missed = 0

    def __enter__(self) -> Self:
        asked = self._run.request
        begun = begin_part(
            self._run.storage,
            self._name,
            self._array,
            self._number,
            self._state,
            force=asked.force,
            allow_mixed=asked.allow_mixed,
        )
        self.differences = begun.differences
        for line in begun.warnings:
            self.warned(line)
        self._noted_at = time.monotonic()
        return self

    def plan(self) -> Plan:
        """The run's plan; where parts are mixed, with the caveat on what it makes."""
        if not self.differences:
            return self._run.plan
        return replace(self._run.plan, units=[_mixed(unit) for unit in self._run.plan.units])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.ended = error is None
        self._note(wait_s=_END_WAIT_S)

    def planned(self, due: int, idle: int, impossible: int) -> None:
        self._run.progress.planned(due, idle, impossible)

    def warned(self, line: str) -> None:
        self._run.progress.warned(line)

    def finished(self, outcome: Outcome) -> None:
        self._run.progress.finished(outcome)
        self._state.failed += outcome.failed
        self._state.done += not outcome.failed
        if outcome.status is Status.DONE and not outcome.skipped:
            unit = self._units[outcome.session_id, outcome.feature]
            self._seconds[unit.name] = unit, outcome.seconds
        if time.monotonic() - self._noted_at > _NOTE_EVERY_S:
            self._note()

    def _note(self, wait_s: float = 0) -> None:
        costs: dict[str, tuple[float, float]] = {}
        for unit, seconds in self._seconds.values():
            names = ",".join(sorted({feature for track in unit.tracks for feature in track.features}))
            expected, took = costs.get(names, (0.0, 0.0))
            costs[names] = expected + unit.cost, took + seconds
        self._state.costs = costs
        try:
            note_part(self._run.storage, self._name, self._array, self._number, self._state, wait_s=wait_s)
            self._missed = 0
        except OSError as error:
            self._missed += 1
            if wait_s or self._missed == _MISSED:
                self.warned(f"how far this part is cannot be noted for 'storyframes status': {error}")
        self._noted_at = time.monotonic()


def _mixed(unit: ExtractionUnit) -> ExtractionUnit:
    beside = tuple(_mixed(other) for other in unit.beside)
    return replace(unit, caveats=(*unit.caveats, Caveat.MIXED_PARTS), beside=beside)
