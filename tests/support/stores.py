"""Feature stores for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.features import FEATURES
from storyframes.store import catalogue, table_files
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.local_folder import LocalStorage
from tasks.study.load import Session, Study
from tasks.study.study_identity import remember_study


def local(root: Path) -> LocalStorage:
    """A folder as the library sees it."""
    return LocalStorage(root)


def remember_sessions(root: Path, *sessions: str) -> None:
    """Record that the store is of a study with these sessions, each of a participant of its own."""
    rows = (Session(session_id=name, participant_id=f"of-{name}", transcript="t.csv") for name in sessions)
    remember_study(local(root), Study(root, {row.session_id: row for row in rows}))


def publish_openface(root: Path, session_id: str, rows: int, *, seed: int = 0, fingerprint: str = "f" * 64) -> str:
    """A version of random openface values; returns its name."""
    generator = np.random.default_rng(seed)
    with FeatureWriter(local(root), session_id, FEATURES["openface"]) as out:
        out.write("values", generator.normal(size=(rows, 714)).astype(np.float32))
        out.write("valid", np.ones(rows, np.uint8))
        out.write("confidence", np.full(rows, 0.98, np.float32))
        return out.publish(fingerprint, {"inputs": {}}).version


def catalogue_rows(root: Path) -> list[dict[str, Any]]:
    """What the catalogue says to whoever reads it."""
    content = (root / "catalogue.parquet").read_bytes()
    return table_files.parse_table(content, "catalogue.parquet", catalogue.SCHEMA.names).to_pylist()


def publish_arrays(root: Path, session_id: str, feature: str, arrays: Mapping[str, np.ndarray]) -> None:
    """A version of a built-in feature with these arrays, which readers see."""
    with FeatureWriter(local(root), session_id, FEATURES[feature]) as out:
        for name, rows in arrays.items():
            out.write(name, rows)
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(root))
