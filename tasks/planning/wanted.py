"""The versions that an extraction would want now, to tell what is stale without noting or loading anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from storyframes.store.layout import INPUTS
from storyframes.store.storage import Storage
from tasks.extract import explain
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.models.digests import DigestCache
from tasks.models.weights import without_download
from tasks.planning.selection import all_sessions, selected_extractors
from tasks.planning.sources import session_source
from tasks.study.load import Study


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
    for session_id in all_sessions(study):
        extractors = selected_extractors(build_extractors(settings, session_id), settings.features)
        source = session_source(study, session_id, extractors.values(), digests)
        for extractor in extractors.values():
            try:
                with without_download():
                    fingerprint = extractor.fingerprint(source).digest
            except Exception as error:  # of this feature alone, whatever a plug-in raises
                yield Wanted(session_id, extractor.name, "", explain(storage, extractor, error))
            else:
                yield Wanted(session_id, extractor.name, fingerprint)
