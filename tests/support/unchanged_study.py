"""A study whose features are all there, made in seconds: nothing is extracted, its files are a few bytes each."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pandas as pd

from storyframes.features import FEATURES, feature_spec
from storyframes.store.layout import INNER_GROUP, current_path
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Current
from storyframes.store.storage.local_folder import LocalStorage
from tasks.extract import ExtractionUnit
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import Study, load_study

# Models that are here without a download.
_VECTORS = Path(__file__).parents[2] / "demo" / "glove.demo.300d.txt"
SETTINGS = ExtractorsSettings.model_validate(
    {"resnet50": {"allow_untrained": True}, "glove": {"vectors": str(_VECTORS), "demo_vectors": True}}
)
_LONG_AGO_S = 1_700_000_000  # a file that changed this very second would be read again


def unchanged_study(folder: Path, sessions: int) -> tuple[Study, Path]:
    """A study and its feature store, in which every feature of every session is up to date.

    Args:
        folder: where to make both, below ``study`` and ``features``.
        sessions: how many.
    """
    study = _write_study(folder / "study", sessions)
    store = folder / "features"
    published: dict[str, Current] = {}
    for work in plan_extraction(study, store, SETTINGS, Selection()).units:
        _publish(LocalStorage(store), work, published)
    return study, store


def _write_study(folder: Path, sessions: int) -> Study:
    kinds = {"video": "avi", "transcript": "json", "openface": "csv"}
    rows = []
    for kind in kinds:
        (folder / kind).mkdir(parents=True)
    for number in range(sessions):
        row = {"session_id": f"s{number:04d}", "participant_id": f"p{number % 41:02d}"}
        for kind, suffix in kinds.items():
            row[kind] = f"{kind}/{row['session_id']}.{suffix}"
            (folder / row[kind]).write_text(f"{kind} of {row['session_id']}")
            os.utime(folder / row[kind], (_LONG_AGO_S, _LONG_AGO_S))
        rows.append(row)
    pd.DataFrame(rows).to_csv(folder / "sessions.csv", index=False)
    return load_study(folder)


def _publish(storage: LocalStorage, work: ExtractionUnit, published: dict[str, Current]) -> None:
    """A feature's first session is published in the usual way; the others get links to its files and their own record.

    (A link costs no flush, so 269 sessions take seconds instead of minutes.)
    """
    (feature,) = work.features
    extractor = build_extractors(work.settings, work.session_id)[feature]
    fingerprint = extractor.fingerprint(work.source)
    provenance = fingerprint.provenance(extractor.libraries)
    if (first := published.get(feature)) is None:
        with FeatureWriter(storage, work.session_id, feature_spec(work.session_id, feature)) as out:
            for name, array in FEATURES[feature].arrays.items():
                if not array.optional:
                    out.write(name, np.zeros((1, *array.shape), array.dtype))
            published[feature] = out.publish(fingerprint.digest, provenance)
        return
    current = dataclasses.replace(
        first, session_id=work.session_id, fingerprint=fingerprint.digest, provenance=provenance
    )
    record = storage.root / current_path(work.session_id, feature)
    for name in first.files:
        linked = record.parent / first.version / name
        linked.parent.mkdir(parents=True, exist_ok=True)
        linked.hardlink_to(storage.root / first.session_id / feature / first.version / name)
    for group in (record.parent, record.parent.parent):
        (group / "zarr.json").write_bytes(INNER_GROUP)
    record.write_bytes(current.to_json())
