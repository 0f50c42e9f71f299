"""Planning: which features of which sessions are due, before anything is started.

What is up to date is settled here, by reading small records only, so an unchanged study submits no work at all.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from storyframes.catalogue import read_entry
from storyframes.features import STORIES
from storyframes.layout import INPUTS, create_store, feature_folder
from storyframes.records import Status, now
from storyframes.study import Session, Study
from tasks.digests import DigestCache
from tasks.extract import Outcome, Work, done, not_done, up_to_date
from tasks.extractor import ExtractionError, Extractor, InputFile, MissingInputError, Source
from tasks.extractors import ExtractorsSettings, build_extractors

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
    """What is due, and what needs nothing done."""

    work: list[Work] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)


def plan_extraction(
    study: Study,
    root: Path,
    settings: ExtractorsSettings,
    selection: Selection,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Plan:
    """Compare what the study asks for with what the store has.

    Args:
        study: a valid study.
        root: the feature store, made where absent.
        settings: of all extractors.
        selection: what is asked for.
        progress: called with (session_id, number, how many) before each session: a first run reads every input once.

    Raises:
        SelectionError: an unknown session or feature was asked for.
        StoreError: ``root`` is something else.
    """
    check_selection(study, settings, selection)
    session_ids = list(dict.fromkeys(selection.session_ids or _all_sessions(study)))
    create_store(root)
    digests = DigestCache(root / INPUTS, study.root)
    plan = Plan()
    since = now() if selection.force else ""
    of_sessions = _selected_extractors(build_extractors(settings, ""), selection)
    of_stories = _selected_extractors(build_extractors(settings, STORIES), selection)
    try:
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            extractors = of_stories if session_id == STORIES else of_sessions
            try:
                source = _source(study, session_id, digests)
            except OSError as error:
                reason = f"{Path(error.filename).name}: cannot be read: {error.strerror}"
                plan.settled += [
                    not_done(root, session_id, feature, Status.FAILED, reason, "") for feature in extractors
                ]
                continue
            for extractor in extractors.values():
                forced = since if selection.only is None or extractor.name in selection.only else ""
                _plan_feature(plan, Work(root, source, extractor.name, settings, forced), extractor)
    finally:
        digests.save()
    return plan


def _plan_feature(plan: Plan, work: Work, extractor: Extractor) -> None:
    session_id, feature = work.session_id, work.feature
    try:
        fingerprint = extractor.fingerprint(work.source).digest
    except MissingInputError as error:
        plan.settled.append(not_done(work.root, session_id, feature, Status.MISSING, str(error), ""))
        return
    except ExtractionError as error:
        plan.settled.append(not_done(work.root, session_id, feature, Status.FAILED, str(error), ""))
        return
    if current := up_to_date(work.root, session_id, feature, fingerprint, work.since):
        plan.settled.append(done(current, skipped=True))
    elif missing := _known_missing(work, fingerprint):
        plan.settled.append(missing)
    else:
        plan.work.append(work)


def _known_missing(work: Work, fingerprint: str) -> Outcome | None:
    """An earlier attempt on the very same input found nothing to extract: so would this one."""
    folder = feature_folder(work.root, work.session_id, work.feature)
    entry = read_entry(folder, work.session_id, work.feature)
    attempt = entry.attempt if entry else None
    if work.since or attempt is None or attempt.status is not Status.MISSING or attempt.fingerprint != fingerprint:
        return None
    return Outcome(work.session_id, work.feature, Status.MISSING, skipped=True, reason=attempt.reason)


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


def _selected_extractors(extractors: dict[str, Extractor], selection: Selection) -> dict[str, Extractor]:
    """The extractors asked for, and the session's clock, which the others need."""
    if selection.only is None:
        return extractors
    return {name: extractor for name, extractor in extractors.items() if name in selection.only or name == CLOCK}


def _source(study: Study, session_id: str, digests: DigestCache) -> Source:
    if session_id == STORIES:
        return Source(STORIES, {STORIES: _input(study.table_path("stories"), study.root, digests)})
    session = study.sessions[session_id]
    return Source(session_id, {kind: _input(path, study.root, digests) for kind, path in _files(study, session)})


def _files(study: Study, session: Session) -> list[tuple[str, Path]]:
    named = [("video", session.video), ("audio", session.audio), ("transcript", session.transcript)]
    named.append(("openface", session.openface))
    return [(kind, study.path(relative)) for kind, relative in named if relative]


def _input(path: Path, root: Path, digests: DigestCache) -> InputFile:
    digest = digests.sha256(path)
    status = path.stat()
    return InputFile(path, path.relative_to(root).as_posix(), digest, status.st_size, status.st_mtime_ns)
