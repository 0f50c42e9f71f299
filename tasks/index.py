"""The clip index of a study: from the tables alone, or with what the feature store knows of each session."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, field_validator

from storyframes.catalogue import replace_table, to_parquet
from storyframes.durable import write_atomically
from storyframes.features import FEATURES
from storyframes.layout import CLIPS
from storyframes.storage import Storage
from storyframes.store import FeatureStore
from storyframes.study import Study
from storyframes.windows import SessionSignals, WindowSpec, build_index

ROW_GROUP = 16_384


class ClipsSettings(BaseModel):
    """``[clips]``: how clips are cut.

    Attributes:
        window: frames of a clip (120: 8 s at 15 fps).
        stride: frames between the starts of two clips (15: 1 s at 15 fps).
        fps: frames per second assumed for a session whose frame times are not known yet.
        phases: the phases that give clips; without it all do.
        split_shares: shares of the participants in train, val and test.
        split_seed: seeds the assignment of participants to splits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: int = Field(default=120, ge=1)
    stride: int = Field(default=15, ge=1)
    fps: float = Field(default=15.0, gt=0)
    phases: tuple[str, ...] | None = None
    split_shares: tuple[float, float, float] = (0.7, 0.2, 0.1)
    split_seed: int = 0

    @field_validator("split_shares")
    @classmethod
    def _are_shares(cls, shares: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(shares) < 0 or sum(shares) <= 0:
            raise ValueError("shares are not negative, and not all zero")
        return shares

    def spec(self) -> WindowSpec:
        return WindowSpec(**self.model_dump())


def build_clip_index(study: Study, settings: ClipsSettings, store: FeatureStore | None) -> pd.DataFrame:
    """One row per window and rating (see :func:`storyframes.windows.build_index`).

    Args:
        study: a valid study.
        settings: how clips are cut.
        store: the study's features; None makes the index from the tables alone.
    """
    signals = {session: _signals(store, session) for session in store.sessions} if store else {}
    return build_index(
        study.frame("sessions"),
        study.frame("phases"),
        study.frame("ratings"),
        settings.spec(),
        signals,
        list(FEATURES) if store else [],
    )


def write_clip_index(index: pd.DataFrame, storage: Storage) -> None:
    """Make ``index`` the store's clip index; unchanged content leaves the file alone."""
    replace_table(storage, CLIPS, lambda: _table(index), ROW_GROUP)


def export_clip_index(index: pd.DataFrame, path: Path) -> None:
    """Write ``index`` as a Parquet file of its own."""
    write_atomically(path, to_parquet(_table(index), ROW_GROUP))


def _table(index: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(index, preserve_index=False).replace_schema_metadata(None)


def _signals(store: FeatureStore, session_id: str) -> SessionSignals:
    there = frozenset(store.features(session_id))

    def read(feature: str, array: str):  # type: ignore[no-untyped-def]
        return store.read(session_id, feature, array=array) if feature in there else None

    return SessionSignals(
        time=read("frames", "time"),
        tracked=read("openface", "valid"),
        confidence=read("openface", "confidence"),
        audio_time=read("opensmile", "time"),
        word_start=read("glove", "start"),
        features=there,
    )
