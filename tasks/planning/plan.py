"""Planning: which features of which sessions are due, before anything is started.

What is up to date is settled here, by reading small records only, so an unchanged study submits no work at all.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from storyframes.features import STORIES
from storyframes.store.catalogue import Entry, scan
from storyframes.store.layout import INPUTS, create_store
from storyframes.store.records import Status
from storyframes.store.storage import FileInfo, Storage
from tasks.extract import Outcome, Work, current_if_sound, done, failed
from tasks.extractors.base import ExtractionError, Extractor, InputFile, MissingInputError, Source
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.openface.extractor import Backend
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.extractors.resnet50.settings import EngineName
from tasks.models.digests import DigestCache
from tasks.models.weights import without_download
from tasks.planning.cost import expected_cost, recording_s
from tasks.study.load import Session, Study, StudyFileError

CLOCK = "frames"


class SelectionError(ValueError):
    """A session or feature was asked for that does not exist."""


@dataclass(frozen=True)
class Selection:
    """What is asked for.

    Attributes:
        session_ids: these sessions; None takes all of them and the stories.
        only: these features; None takes all.
        force: extract again what is up to date.
    """

    session_ids: tuple[str, ...] | None = None
    only: tuple[str, ...] | None = None
    force: bool = False


@dataclass
class Plan:
    """What is due, the most expensive first, and what is not: it is up to date, or cannot be made."""

    work: list[Work] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)


def plan_extraction(
    study: Study,
    store: str | os.PathLike[str],
    settings: ExtractorsSettings,
    selection: Selection,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    cpus: int = 1,
) -> Plan:
    """Compare what the study asks for with what the store has.

    Args:
        study: a valid study.
        store: the feature store's location, made where absent.
        settings: of all extractors.
        selection: what is asked for.
        progress: called with (session_id, number, how many) before each session: a first run reads every input once.
        cpus: processors that one worker can have; a network gets several of them where sessions are few.

    Raises:
        SelectionError: an unknown session or feature was asked for.
        StoreError: there is something else.
    """
    check_selection(study, settings, selection)
    settings = settings.resolved()
    session_ids = list(dict.fromkeys(selection.session_ids or _all_sessions(study)))
    storage = create_store(store)
    digests = DigestCache(storage, INPUTS, study.root)
    known = _Known.of(storage, session_ids[0] if len(session_ids) == 1 else "*")
    plan = Plan()
    only = settings.features if selection.only is None else selection.only
    of_sessions = _selected_extractors(build_extractors(settings, ""), only)
    of_stories = _selected_extractors(build_extractors(settings, STORIES), only)
    try:
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            extractors = of_stories if session_id == STORIES else of_sessions
            source = _source(study, session_id, settings, digests)
            due = []
            for extractor in extractors.values():
                forced = selection.force and (selection.only is None or extractor.name in selection.only)
                since = {extractor.name: known.count(session_id, extractor.name)} if forced else {}
                work = Work(storage.location, source, (extractor.name,), settings, since)
                if settled := _settled(known, work, extractor):
                    plan.settled.append(settled)
                else:
                    due.append(work)
            plan.work += _sharing_a_pass(due, extractors)
    finally:
        digests.save()
    plan.work = most_expensive_first(_spread(plan.work, cpus))
    return plan


@dataclass(frozen=True)
class Wanted:
    """What an extraction would want of one feature now.

    Attributes:
        fingerprint: of the version it would publish, empty where that cannot be told here.
        reason: why it cannot be told: the session lacks the input, or this machine a model.
    """

    session_id: str
    feature: str
    fingerprint: str
    reason: str = ""


def wanted_versions(study: Study, storage: Storage, settings: ExtractorsSettings) -> Iterator[Wanted]:
    """What planning would compare with the store, for every session and feature.

    Nothing is noted anywhere, and no model is downloaded: this is for looking.

    Args:
        study: a valid study.
        storage: the feature store; the digests of files that have not changed come from it.
        settings: of all extractors.
    """
    digests = DigestCache(storage, INPUTS, study.root)
    for session_id in _all_sessions(study):
        extractors = _selected_extractors(build_extractors(settings, session_id), settings.features)
        source = _source(study, session_id, settings, digests)
        for extractor in extractors.values():
            try:
                with without_download():
                    fingerprint = extractor.fingerprint(source).digest
            except (MissingInputError, ExtractionError) as error:
                yield Wanted(session_id, extractor.name, "", str(error))
            else:
                yield Wanted(session_id, extractor.name, fingerprint)


@dataclass(frozen=True)
class _Known:
    """What the store has, listed once: an object store would take a request for every question."""

    storage: Storage
    entries: Mapping[tuple[str, str], Entry]
    files: Mapping[str, FileInfo]

    @classmethod
    def of(cls, storage: Storage, session_id: str) -> _Known:
        entries = {(entry.session_id, entry.feature): entry for entry in scan(storage, session_id)}
        files = storage.files("" if session_id == "*" else session_id, unreadable=lambda *_: None)  # asked for again
        return cls(storage, entries, files)

    def count(self, session_id: str, feature: str) -> int:
        """The count of the current version, 0 where there is none."""
        entry = self.entries.get((session_id, feature))
        return entry.current.sequence if entry and entry.current else 0


def most_expensive_first(work: Iterable[Work]) -> list[Work]:
    """The work in the order in which it should begin, with its expected cost.

    The clocks come first, as others wait for them. Then the most expensive features, so those of the longest sessions;
    the cheap ones fill what is left at the end.
    """
    lengths: dict[str, float] = {}
    priced = []
    for unit in work:
        if unit.session_id not in lengths:
            lengths[unit.session_id] = recording_s(unit.source)
        priced.append(replace(unit, cost=expected_cost(unit.features, unit.settings, lengths[unit.session_id])))
    waiting: dict[str, float] = {}
    for unit in priced:
        waiting[unit.session_id] = waiting.get(unit.session_id, 0.0) + unit.cost
    clocks = [unit for unit in priced if unit.features == (CLOCK,)]
    others = [unit for unit in priced if unit.features != (CLOCK,)]
    return [
        *sorted(clocks, key=lambda unit: -waiting[unit.session_id]),
        *sorted(others, key=lambda unit: -unit.cost),
    ]


_MOST_CPUS = 8  # beyond them decoding and resizing, which take one processor, are what the network waits for


def _spread(work: list[Work], cpus: int) -> list[Work]:
    """The work with more than one processor for the network where there are fewer sessions than processors."""
    sessions = sum("resnet50" in unit.features for unit in work)
    share = min(cpus // sessions, _MOST_CPUS) if sessions else 1

    def widened(unit: Work) -> Work:
        resnet50 = unit.settings.resnet50
        if share < 2 or unit.features != ("resnet50",) or resnet50.cpus or resnet50.engine is not EngineName.OPENVINO:
            return unit
        settings = unit.settings.model_copy(update={"resnet50": resnet50.model_copy(update={"cpus": share})})
        return replace(unit, settings=settings)

    return [widened(unit) for unit in work]


def _settled(known: _Known, work: Work, extractor: Extractor) -> Outcome | None:
    """The outcome where nothing needs to be done, or nothing can be; None where the work is due."""
    session_id, feature = work.session_id, extractor.name
    try:
        fingerprint = extractor.fingerprint(work.source).digest
    except (MissingInputError, ExtractionError) as error:
        return failed(known.storage, session_id, feature, error, "")
    entry = known.entries.get((session_id, feature))
    try:
        since = work.since.get(feature)
        if current := current_if_sound(known.storage, entry, fingerprint, since, known.files):
            return done(current, skipped=True)
    except OSError:  # whether it is intact cannot be told: the attempt will say so, and leave the others alone
        return None
    attempt = entry.attempt if entry else None
    if attempt and attempt.status is Status.MISSING and attempt.fingerprint == fingerprint and not work.since:
        # An earlier attempt on the very same input found nothing to extract: so would this one.
        return Outcome(session_id, feature, Status.MISSING, skipped=True, reason=attempt.reason)
    return None


def _sharing_a_pass(due: list[Work], extractors: dict[str, Extractor]) -> list[Work]:
    """The work with the features that want the same decoded frames made one."""
    frame_by_frame = [work for work in due if isinstance(extractors[work.features[0]], FrameExtractor)]
    if len(frame_by_frame) < 2 or len({bool(work.since) for work in frame_by_frame}) > 1:
        return due
    since = {feature: count for work in frame_by_frame for feature, count in work.since.items()}
    together = replace(frame_by_frame[0], features=tuple(work.features[0] for work in frame_by_frame), since=since)
    return [together if work is frame_by_frame[0] else work for work in due if work not in frame_by_frame[1:]]


def check_selection(study: Study, settings: ExtractorsSettings, selection: Selection) -> None:
    """Refuse a selection that names what does not exist.

    Raises:
        SelectionError: an unknown session or feature.
    """
    if selection.session_ids is not None:
        _check_known("session", selection.session_ids, _all_sessions(study))
    if selection.only is not None:
        _check_known("feature", selection.only, build_extractors(settings, ""))


def _all_sessions(study: Study) -> list[str]:
    return [*study.sessions, *([STORIES] if study.stories else [])]


def _check_known(kind: str, asked: Iterable[str], there: Iterable[str]) -> None:
    there = list(there)
    for name in asked:
        if name not in there:
            close = difflib.get_close_matches(name, there, n=1)
            hint = f": is {close[0]!r} meant?" if close else f"; there are {', '.join(there[:12])}"
            raise SelectionError(f"there is no {kind} {name!r}{hint}")


def _selected_extractors(extractors: dict[str, Extractor], only: tuple[str, ...]) -> dict[str, Extractor]:
    """The extractors asked for, and the session's clock, which the others need."""
    return {name: extractor for name, extractor in extractors.items() if name in only or name == CLOCK}


def _source(study: Study, session_id: str, settings: ExtractorsSettings, digests: DigestCache) -> Source:
    """The session's files; one that cannot be used costs the features that need it, and nothing else."""
    if session_id == STORIES:
        named = [(STORIES, study.table_path("stories").name)]
    else:
        named = named_files(study.sessions[session_id], settings)
    files, unusable = {}, {}
    for kind, relative in named:
        try:
            files[kind] = _input(study.path(relative), study.root, digests)
        except StudyFileError as error:
            unusable[kind] = str(error)
        except OSError as error:
            unusable[kind] = f"{relative}: cannot be read: {error.strerror or type(error).__name__}"
    return Source(session_id, files, unusable)


def named_files(session: Session, settings: ExtractorsSettings) -> list[tuple[str, str]]:
    """The session's files that these settings ask for: kind, and path in the study."""
    named = [("video", session.video), ("audio", session.audio), ("transcript", session.transcript)]
    if settings.openface.backend is Backend.CSV:
        named.append(("openface", session.openface))
    return [(kind, relative) for kind, relative in named if relative]


def unusable_files(study: Study, session: Session, settings: ExtractorsSettings) -> dict[str, str]:
    """By kind, why a file of the session that these settings ask for cannot be used."""
    unusable = {}
    for kind, relative in named_files(session, settings):
        try:
            study.path(relative)
        except StudyFileError as error:
            unusable[kind] = str(error)
    return unusable


def _input(path: Path, root: Path, digests: DigestCache) -> InputFile:
    digest = digests.sha256(path)
    status = path.stat()
    return InputFile(path, path.relative_to(root).as_posix(), digest, status.st_size, status.st_mtime_ns)
