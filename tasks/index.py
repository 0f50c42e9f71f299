"""The clip index of a study: from the tables alone, or with what the feature store knows of each session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals, build_index
from storyframes.features import FEATURES, STORIES, in_order
from storyframes.recording_times import SOUND_FITS_S
from storyframes.store.catalogue import WHOLE_SESSION, replace_table, to_parquet
from storyframes.store.durable import write_atomically
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, StoreError
from storyframes.store.storage import Storage
from storyframes.tracks import MAIN, feature_and_track
from tasks.study.load import Study

ROW_GROUP = 16_384
_SLACK_S = 1.0  # phases are noted by hand; one may end this much after the last frame


@dataclass(frozen=True)
class ClipIndex:
    """The clips of a study.

    Attributes:
        clips: one row per window and rating (see :func:`storyframes.clips.windows.build_index`).
        excluded: sessions that give no clips because something is wrong with them, and what it is.
        warnings: by session, what is odd about those that do.
    """

    clips: pd.DataFrame
    excluded: Mapping[str, str]
    warnings: Mapping[str, str]


def build_clip_index(study: Study, spec: WindowSpec, store: FeatureStore | None) -> ClipIndex:
    """Cut the study into clips; what is wrong with one session costs its clips and nobody else's.

    Args:
        study: a valid study.
        spec: how clips are cut.
        store: the study's features; None makes the index from the tables alone.
    """
    sessions, phases = study.frame("sessions"), study.frame("phases")
    excluded = dict(study.excluded)
    signals = {}
    if store:
        for session_id in sorted(set(store.sessions) & set(sessions["session_id"])):
            try:
                signals[session_id] = _signals(store, session_id)
            except (StoreError, OSError, ValueError) as error:
                reason = str(error) if isinstance(error, StoreError) else f"an array cannot be read ({error})"
                excluded.setdefault(session_id, f"{reason}: 'storyframes verify' says what is damaged")
    clips = build_index(
        sessions,  # all of them: the splits do not move when a session is mended
        phases[~phases["session_id"].isin(list(excluded))],
        study.frame("ratings"),
        spec,
        signals,
        _features(store) if store else [],
    )
    warnings: dict[str, str] = {}
    for session_id, odd in (*_phases_beyond_the_end(phases, signals), *_sound_that_does_not_fit(signals)):
        warnings[session_id] = f"{warnings[session_id]}; {odd}" if session_id in warnings else odd
    return ClipIndex(clips, excluded, warnings)


def _features(store: FeatureStore) -> list[str]:
    """The built-in features, so that a filter by any of them means something, and whatever else was ever attempted."""
    table = store.catalogue
    there = table["feature"][(table["session_id"] != STORIES) & (table["feature"] != WHOLE_SESSION)]
    return in_order([*FEATURES, *(name for name in there if feature_and_track(name)[1] == MAIN)])


def _phases_beyond_the_end(phases: pd.DataFrame, signals: Mapping[str, SessionSignals]) -> Iterator[tuple[str, str]]:
    """Sessions with a phase that ends well after the last frame: cut recordings, or another session's times."""
    for session_id, of_session in phases.groupby("session_id"):
        time = signals[session_id].time if session_id in signals else None
        if time is None or not len(time):
            continue
        last = of_session.loc[of_session["end_s"].idxmax()]
        if last["end_s"] > time[-1] + _SLACK_S:
            yield (
                str(session_id),
                f"the phase {last['phase']!r} ends at {last['end_s']:.2f} s, the last frame is at {time[-1]:.2f} s",
            )


def _sound_that_does_not_fit(signals: Mapping[str, SessionSignals]) -> Iterator[tuple[str, str]]:
    """Sessions whose sound begins well after the first frame, or ends well before the last."""
    for session_id, signal in signals.items():
        time, sound = signal.time, signal.audio_time
        if time is None or sound is None or not len(time) or not len(sound):
            continue
        if sound[0] > time[0] + SOUND_FITS_S or sound[-1] < time[-1] - SOUND_FITS_S:
            yield (
                session_id,
                f"there is sound from {sound[0]:.2f} s to {sound[-1]:.2f} s, but frames from {time[0]:.2f} s to "
                f"{time[-1]:.2f} s: sound_covered tells which clips have it throughout",
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
