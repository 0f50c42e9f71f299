"""Planning: which features of which sessions are due, and which the store has already, before anything is started.

Only small records are read, so planning an unchanged study gives no unit. :func:`expected_versions` says the same to a
reader (the report), and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from storyframes.spec import feature_and_track, is_label_curve, of_track
from storyframes.store.layout import INPUTS, create_store
from storyframes.store.record_status import FeatureStatus, read_status, scan
from storyframes.store.records import Status
from storyframes.store.storage import FileInfo, Storage, StorageError
from tasks.clip_index.label_rules import LabelRule
from tasks.extract import ExtractionUnit, Outcome, current_if_sound, done, failed
from tasks.extractors.base import Extractor, Source
from tasks.extractors.earlier_fingerprints import has_fingerprint
from tasks.extractors.registry import ExtractorsSettings
from tasks.failures import explain
from tasks.models.digests import DigestCache
from tasks.planning.selection import Selection, all_sessions
from tasks.planning.sources import StudySources, curve_features
from tasks.planning.units import (
    joined_with_clocks,
    most_expensive_first,
    sharing_a_pass,
    sharing_a_video,
    spread_over_processors,
)
from tasks.study.load import Study


class Counts(NamedTuple):
    """How many features are due, how many need nothing done, and how many cannot be made: a file is missing."""

    due: int
    idle: int
    impossible: int


@dataclass(repr=False)
class Plan:
    """The units that are due, the most expensive first, and the outcomes of features that need no unit."""

    units: list[ExtractionUnit] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        impossible = sum(outcome.status is Status.FAILED for outcome in self.settled)
        due = sum(len(unit.makes) for unit in self.units)
        return Counts(due, len(self.settled) - impossible, impossible)

    def __repr__(self) -> str:
        return f"{self.counts.due} features are due, {len(self.settled)} are settled"


def plan_extraction(
    study: Study,
    store: str | os.PathLike[str] | Storage,
    settings: ExtractorsSettings,
    selection: Selection,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    cpus: int = 1,
    rules: Mapping[str, LabelRule] = MappingProxyType({}),
) -> Plan:
    """Compare what the study asks for with what the store has.

    Args:
        store: the feature store, or its location, where one is made if there is none.
        progress: called with (session_id, number, how many) before each session: a first run reads every input once.
        cpus: processors that one worker can have; a network gets several of them where sessions are few.
        rules: by scheme, of which raters its curves are features.

    Raises:
        SelectionError: an unknown session, track or feature was asked for.
        StoreError: the location is something else than a store.
    """
    selection.check(study, settings, curve_features(study, rules))
    settings = settings.resolved()
    session_ids = list(dict.fromkeys(selection.session_ids or all_sessions(study)))
    storage = create_store(store) if isinstance(store, str | os.PathLike) else store
    digests = DigestCache(storage, INPUTS, *study.folders)
    listing_of = StoreListing.by_session(storage, session_ids)
    sources = StudySources(study, settings, selection, rules, digests)
    plan = Plan()
    try:
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            listing = listing_of(session_id)
            of_session: list[ExtractionUnit] = []
            all_extractors: dict[str, Extractor[Any]] = {}
            for source, extractors in sources.of_session(session_id, listing.label_curves):
                due = []
                for extractor in extractors.values():
                    unit = ExtractionUnit(
                        storage.location,
                        source,
                        (extractor.name,),
                        settings,
                        after=extractor.after,
                        store_id=storage.store_id,
                    )
                    if selection.force and (selection.only is None or extractor.name in selection.only):
                        count = listing.count(session_id, unit.stored(extractor.name))
                        unit = replace(unit, since={extractor.name: count})
                    if outcome := settled_outcome(listing, unit, extractor):
                        plan.settled.append(outcome)
                    else:
                        due.append(unit)
                of_session += sharing_a_pass(due, extractors)
                all_extractors |= extractors
            of_session = sharing_a_video(of_session, all_extractors)
            plan.units += joined_with_clocks(of_session, all_extractors, alone=listing.has_failed)
    finally:
        digests.save()
    plan.units = most_expensive_first(spread_over_processors(plan.units, cpus))
    return plan


@dataclass(frozen=True)
class StoreListing:
    """What the store has of a session, or of all."""

    storage: Storage
    entries: Mapping[tuple[str, str], FeatureStatus]
    files: Mapping[str, FileInfo]

    @classmethod
    def of(cls, storage: Storage, session_id: str) -> StoreListing:
        entries = {(entry.session_id, entry.feature): entry for entry in scan(storage, session_id)}
        files = storage.files("" if session_id == "*" else session_id, unreadable=lambda *_: None)  # asked for again
        return cls(storage, entries, files)

    @classmethod
    def by_session(cls, storage: Storage, session_ids: Sequence[str]) -> Callable[[str], StoreListing]:
        """A function that gives what the store has of a session.

        A folder is listed session by session: the listing of a hundred thousand of them would take gigabytes. An object
        store is listed once: every question would take a request.

        Raises:
            StorageError: the store as a whole cannot be read.
        """
        folder = storage.local("")
        if folder is None and len(session_ids) > 1:
            everything = cls.of(storage, "*")
            return lambda _: everything
        if folder is not None:
            try:
                os.scandir(folder).close()
            except OSError as error:
                raise StorageError(f"{storage.location}: {error.strerror}") from error
        return lambda session_id: cls.of(storage, session_id)

    def count(self, session_id: str, feature: str) -> int:
        """The count of the current version, 0 where there is none."""
        entry = self.entries.get((session_id, feature))
        return entry.record.sequence if entry and entry.record else 0

    def has_failed(self, unit: ExtractionUnit) -> bool:
        """Whether the last attempt at a feature of the unit failed."""
        attempts = [entry.attempt for made in unit.makes if (entry := self.entries.get(made))]
        return any(attempt is not None and attempt.status is Status.FAILED for attempt in attempts)

    def label_curves(self, session_id: str, track: str) -> set[str]:
        """The curves of labels that a track of the session has, without the track in their names."""
        return self._label_curves.get((session_id, track), set())

    @cached_property
    def _label_curves(self) -> dict[tuple[str, str], set[str]]:
        schemes: dict[tuple[str, str], set[str]] = {}
        for session_id, stored in self.entries:
            feature, track = feature_and_track(stored)
            if is_label_curve(feature):
                schemes.setdefault((session_id, track), set()).add(feature)
        return schemes


def settled_outcome(listing: StoreListing, unit: ExtractionUnit, extractor: Extractor[Any]) -> Outcome | None:
    """The outcome where nothing needs to be done, or nothing can be; None where the unit is due."""
    session_id, feature = unit.session_id, unit.stored(extractor.name)
    try:
        fingerprint = extractor.fingerprint(unit.source).digest
    except Exception as error:  # of this feature alone, whatever a plug-in raises
        return failed(listing.storage, unit, extractor, error, "")
    entry = listing.entries.get((session_id, feature))
    try:
        since = unit.since.get(extractor.name)
        if current := current_if_sound(listing.storage, entry, fingerprint, since, listing.files):
            return done(current, skipped=True)
    except OSError:  # whether it is intact is not known: the attempt will say so, and leave the others alone
        return None
    attempt = entry.attempt if entry else None
    if attempt and attempt.status is Status.MISSING and attempt.fingerprint == fingerprint and not unit.since:
        # An earlier attempt on the very same input found nothing to extract: so would this one.
        return Outcome(session_id, feature, Status.MISSING, skipped=True, reason=attempt.reason)
    return None


@dataclass(frozen=True)
class ExpectedVersion:
    """The version of a feature that an extraction would publish now."""

    session_id: str
    feature: str  # as it is called in the store: of another track than the session's own, ``<feature>@<track>``
    fingerprint: str  # its fingerprint, empty where that is not known here
    reason: str = ""  # why it is not known: the session lacks the input, or this machine a model


def expected_versions(
    study: Study,
    storage: Storage,
    settings: ExtractorsSettings,
    rules: Mapping[str, LabelRule] = MappingProxyType({}),
) -> Iterator[ExpectedVersion]:
    """For every session and feature, what planning would compare with the store.

    Nothing is written anywhere, and no model is downloaded.

    Args:
        storage: the feature store; the digests of files that have not changed come from it.
        rules: by scheme, of which raters its curves are features.
    """
    digests = DigestCache(storage, INPUTS, *study.folders)
    sources = StudySources(study, settings, Selection(), rules, digests, may_download=False)
    for session_id in all_sessions(study):
        for source, extractors in sources.of_session(session_id):
            for extractor in extractors.values():
                yield _expected(storage, source, extractor)


def _expected(storage: Storage, source: Source, extractor: Extractor[Any]) -> ExpectedVersion:
    feature = of_track(extractor.name, source.track)
    try:
        fingerprint = extractor.fingerprint(source).digest
        if extractor.distribution or extractor.reads:
            entry = read_status(storage, source.session_id, feature)
            if entry and entry.record and has_fingerprint(storage, entry.record, fingerprint):
                fingerprint = entry.record.fingerprint
    except Exception as error:  # of this feature alone, whatever a plug-in raises
        return ExpectedVersion(source.session_id, feature, "", explain(storage, extractor, error))
    return ExpectedVersion(source.session_id, feature, fingerprint)
