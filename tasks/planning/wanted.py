"""The versions that an extraction would want now, to tell what is stale without noting or loading anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from storyframes.store.layout import INPUTS
from storyframes.store.storage import Storage
from storyframes.tracks import of_track
from tasks.extract import explain
from tasks.extractors.base import Extractor, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.label_rules import LabelRule
from tasks.models.digests import DigestCache
from tasks.planning.label_curves import curve_extractors, curves_by_track
from tasks.planning.selection import Selection, all_sessions, selected_extractors, selected_tracks, track_extractors
from tasks.planning.sources import session_source
from tasks.study.load import Study


@dataclass(frozen=True)
class Wanted:
    """What an extraction would want of one feature now.

    Attributes:
        feature: as it is called in the store: of another track than the session's own, ``<feature>@<track>``.
        fingerprint: of the version it would publish, empty where that cannot be told here.
        reason: why it cannot be told: the session lacks the input, or this machine a model.
    """

    session_id: str
    feature: str
    fingerprint: str
    reason: str = ""


def wanted_versions(
    study: Study,
    storage: Storage,
    settings: ExtractorsSettings,
    rules: Mapping[str, LabelRule] = MappingProxyType({}),
) -> Iterator[Wanted]:
    """What planning would compare with the store, for every session and feature.

    Nothing is noted anywhere, and no model is downloaded: this is for looking.

    Args:
        study: a valid study.
        storage: the feature store; the digests of files that have not changed come from it.
        settings: of all extractors.
        rules: by scheme, of which raters its curves are features.
    """
    digests = DigestCache(storage, INPUTS, study.root)
    everything = Selection()
    all_curves = curves_by_track(study, rules)
    for session_id in all_sessions(study):
        of_session = selected_extractors(build_extractors(settings, session_id, may_download=False), settings.features)
        for track in selected_tracks(study, session_id, everything):
            extractors = dict(track_extractors(of_session, study, session_id, track, everything))
            curves = all_curves.get((session_id, track), {})
            extractors |= curve_extractors(curves, settings, session_id, None)
            source = session_source(study, session_id, extractors.values(), digests, track, curves)
            for extractor in extractors.values():
                yield _wanted(storage, source, extractor)


def _wanted(storage: Storage, source: Source, extractor: Extractor) -> Wanted:
    feature = of_track(extractor.name, source.track)
    try:
        fingerprint = extractor.fingerprint(source).digest
    except Exception as error:  # of this feature alone, whatever a plug-in raises
        return Wanted(source.session_id, feature, "", explain(storage, extractor, error))
    return Wanted(source.session_id, feature, fingerprint)
