"""Planning: which features of which sessions are due, before anything is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from storyframes.features import STORIES
from storyframes.store.layout import INPUTS, create_store
from storyframes.store.records import Status
from storyframes.store.storage import Storage
from tasks.extract import Outcome, Work
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.label_rules import LabelRule
from tasks.models.digests import DigestCache
from tasks.planning.label_curves import curve_extractors, curve_features, curves_by_track
from tasks.planning.order import most_expensive_first
from tasks.planning.passes import sharing_a_pass
from tasks.planning.selection import (
    Selection,
    all_sessions,
    check_selection,
    selected_extractors,
    selected_tracks,
    track_extractors,
)
from tasks.planning.sources import session_source
from tasks.planning.spread import spread_over_processors
from tasks.planning.up_to_date import StoreListing, settled_outcome
from tasks.study.load import Study


class Counts(NamedTuple):
    """How many features are due, how many need nothing done, and how many cannot be made: a file is not there."""

    due: int
    idle: int
    impossible: int


@dataclass(repr=False)
class Plan:
    """What is due, the most expensive first, and what is not: it is up to date, or cannot be made."""

    work: list[Work] = field(default_factory=list)
    settled: list[Outcome] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        impossible = sum(outcome.status is Status.FAILED for outcome in self.settled)
        due = sum(len(work.features) for work in self.work)
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
        study: a valid study.
        store: the feature store, or its location, where one is made if there is none.
        settings: of all extractors.
        selection: what is asked for.
        progress: called with (session_id, number, how many) before each session: a first run reads every input once.
        cpus: processors that one worker can have; a network gets several of them where sessions are few.
        rules: by scheme, of which raters its curves are features.

    Raises:
        SelectionError: an unknown session, track or feature was asked for.
        StoreError: there is something else.
    """
    check_selection(study, settings, selection, curve_features(study, rules))
    settings = settings.resolved()
    session_ids = list(dict.fromkeys(selection.session_ids or all_sessions(study)))
    storage = create_store(store) if isinstance(store, str | os.PathLike) else store
    digests = DigestCache(storage, INPUTS, study.root)
    listing_of = StoreListing.by_session(storage, session_ids)
    all_curves = curves_by_track(study, rules)
    plan = Plan()
    only = settings.features if selection.only is None else selection.only
    of_sessions = selected_extractors(build_extractors(settings, ""), only)
    of_stories = selected_extractors(build_extractors(settings, STORIES), only)
    try:
        for number, session_id in enumerate(session_ids, start=1):
            progress(session_id, number, len(session_ids))
            known = listing_of(session_id)
            of_session = of_stories if session_id == STORIES else of_sessions
            for track in selected_tracks(study, session_id, selection):
                extractors = dict(track_extractors(of_session, study, session_id, track, selection))
                curves = all_curves.get((session_id, track), {})
                gone = known.label_curves(session_id, track) - curves.keys()  # their outcome says that they are
                extractors |= curve_extractors([*curves, *sorted(gone)], settings, session_id, selection.only)
                source = session_source(study, session_id, extractors.values(), digests, track, curves)
                due = []
                for extractor in extractors.values():
                    work = Work(storage.location, source, (extractor.name,), settings, after=extractor.after)
                    if selection.force and (selection.only is None or extractor.name in selection.only):
                        count = known.count(session_id, work.stored(extractor.name))
                        work = replace(work, since={extractor.name: count})
                    if settled := settled_outcome(known, work, extractor):
                        plan.settled.append(settled)
                    else:
                        due.append(work)
                plan.work += sharing_a_pass(due, extractors)
    finally:
        digests.save()
    plan.work = most_expensive_first(spread_over_processors(plan.work, cpus))
    return plan
