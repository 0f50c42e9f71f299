"""Makes a release of a feature store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from storyframes import MAIN, STORIES, Axis, FeatureName, FeatureStore
from storyframes.store import CLIPS, Storage, compact, create_store, new_folder, write_clips
from storyframes_release.release.copying import MOMENT_S, copy_feature
from storyframes_release.release.croissant import croissant
from storyframes_release.release.description import Release, citation, data_card, splits
from storyframes_release.release.ids import Key, check_names, read_key
from storyframes_release.release.manifest import STORE, write_manifest
from storyframes_release.release.released_clips import check_labels, number_ids, released_clips
from storyframes_release.release.released_features import ReleasedFeature, Sensitive, released_feature, sensitivity
from storyframes_release.release.settings import ReleaseError, ReleaseSettings
from storyframes_release.study_sessions import StudySessions, study_sessions

_STORIES = f"{STORIES}/"
_LONGEST_S = 1_000_000  # a recording of eleven days

Progress = Callable[[str], None]
"""Called with the next feature, by its new name."""


def make_release(
    store: FeatureStore,
    target: Path,
    settings: ReleaseSettings,
    key_file: Path | None = None,
    progress: Progress = lambda feature: None,
    study: Path | None = None,
) -> Release:
    """Write a release into a new folder, which appears complete or not at all.

    Args:
        key_file: the file of the ids' new names; None puts it beside ``target``. With the file of an earlier release
            the same ids get the same names.
        progress: called before each feature.
        study: the study whose tables say which sessions are released; None takes the store's record of the study.

    Raises:
        ReleaseError: the release cannot be made as requested.
        StudyError: the study's tables are not valid.
        StoreError: a feature cannot be read, or the record of the study is older than the catalogue.
        OSError: the folder cannot be written.
    """
    key_file = key_file or target.with_name(f"{target.name}.key.json")
    _check_places(store, target, key_file)
    known = study_sessions(store, study)
    known.require()
    clips = _clips(store, settings, known)
    planned, left_out = _plan(store, settings, known)
    if clips is not None:
        _check_recordings(store, planned, clips)
    sessions = sorted({session for session, _ in planned} - {STORIES})
    key = read_key(key_file)
    key.number("sessions", sessions)
    if clips is not None:
        clips = clips[clips["session_id"].isin(sessions)].copy()
        number_ids(clips, key, settings)
    for feature in {feature for session, feature in planned if session == STORIES}:
        key.number("stories", store.story_ids(feature))
    remarks = check_names(store, settings, key, planned, known)
    if withdrawn := [session for session in store.sessions if not known.may_share(session)]:
        remarks.append(f"not released, as the study does not have them: {', '.join(withdrawn)}")
    done = Release(len(sessions), left_out=left_out, remarks=remarks, source=known.source)
    for place in (target, key_file):
        place.absolute().parent.mkdir(parents=True, exist_ok=True)
    key.write(key_file)
    with new_folder(target, partial(_check_is_new, target)) as made:
        storage = create_store(made / STORE)
        for (session, feature), released in _in_new_order(planned, key):
            name = f"{_STORIES}{feature}" if session == STORIES else feature
            progress(name)
            current = copy_feature(store, session, feature, released, storage, made / STORE, key)
            if name not in done.features or len(released.arrays) > len(done.features[name].arrays):
                done.features[name] = released  # without a video it has no rows for frames
            done.having[name] = done.having.get(name, 0) + 1
            if current.provenance:
                ways = done.provenance.setdefault(name, {})
                way = json.dumps(current.provenance, sort_keys=True)
                ways[way] = ways.get(way, 0) + 1
            for caveat in current.caveats:
                of_feature = done.caveats.setdefault(name, {})
                of_feature[caveat] = of_feature.get(caveat, 0) + 1
        compact(storage)
        if clips is not None:
            done.clips = _write_clips(clips, key, settings, planned, storage)
            _write_splits(done.clips, made / "clips")
        for path in [*(made / STORE).rglob(".*")]:
            path.unlink()  # locks that are no longer held
        card = data_card(done, settings, FeatureStore(made / STORE))
        texts = {"README.md": card, "CITATION.cff": citation(settings)}
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
        (made / "croissant.json").write_text(croissant(done, settings, made), encoding="utf-8")
        done.files = write_manifest(made)
        _close(made)
    store.note_given("release", target.name, sessions)
    return done


def _check_is_new(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise ReleaseError(f"{target} is there already: give another place")


def _check_places(store: FeatureStore, target: Path, key_file: Path) -> None:
    _check_is_new(target)
    if key_file.resolve().is_relative_to(target.resolve()):
        raise ReleaseError(f"{key_file} would be inside the release: the key leads back to the ids; keep it elsewhere")
    if folder := store.storage.local(""):
        root = folder.resolve()
        for place in (target, key_file):
            if place.resolve().is_relative_to(root):
                raise ReleaseError(f"{place} is inside the feature store: give a place outside of it")


def _clips(store: FeatureStore, settings: ReleaseSettings, known: StudySessions) -> pd.DataFrame | None:
    """The clip index of the study's sessions that are not left out; None for a store without one."""
    if store.storage.info(CLIPS) is None:
        if settings.labels:
            raise ReleaseError(f"{store.storage.location} has no clip index, and so no labels {settings.labels[0]!r}")
        return None
    clips = store.clips()
    if track := clips.attrs.get("track"):
        raise ReleaseError(
            f"the windows of the clip index are of the frames of the track {track!r}, and tracks are not released: "
            "index the study with windows of the sessions' own frames"
        )
    check_labels(clips, settings)
    if np.nanmax(np.abs(clips[["start_s", "stop_s"]].to_numpy(float)), initial=0) > _LONGEST_S:
        raise ReleaseError(
            f"the clip index has windows beyond {_LONGEST_S:,} s: their times are no seconds of a recording, and may "
            "be dates"
        )
    shared = known.shared(clips["session_id"].unique())
    return clips[clips["session_id"].isin(shared) & ~clips["session_id"].isin(settings.leave_out)]


def _plan(
    store: FeatureStore, settings: ReleaseSettings, known: StudySessions
) -> tuple[dict[tuple[str, str], ReleasedFeature], list[str]]:
    """By session and feature, what is released; and what is left out."""
    names = {*store.sessions, *known.names()}
    if unknown := [name for name in settings.leave_out if name not in names and not known.is_forgotten(name)]:
        raise ReleaseError(f"leave_out: there is no session {unknown[0]!r}")
    planned: dict[tuple[str, str], ReleasedFeature] = {}
    shared = known.shared(store.sessions)
    for name, requested in settings.features.items():
        feature = name.removeprefix(_STORIES)
        of_stories = [STORIES] if name.startswith(_STORIES) else []
        having = [session for session in of_stories or shared if store.has(session, feature)]
        if not having and any(store.has(session, feature) for session in store.sessions):
            raise ReleaseError(f"{name!r}: no session of {known.source} has the feature")
        if not having:
            raise ReleaseError(f"the store has no feature {name!r}; it has {', '.join(store.all_features)}")
        for session in having:
            if session in settings.leave_out:
                continue
            stored = store.spec(session, feature)
            released = released_feature(session, feature, stored, requested)
            if session == STORIES and {array.spec.axis for array in released.arrays.values()} != {Axis.STORY}:
                raise ReleaseError(f"{name!r} has rows that are no stories: they cannot be put into another order")
            _check_allowed(store, session, name, released, settings)
            _check_times(store, session, feature, released)
            planned[session, feature] = released
    if not {session for session, _ in planned} - {STORIES}:
        raise ReleaseError("no session is left to release")
    return planned, _left_out(store, settings)


def _check_allowed(
    store: FeatureStore, session: str, name: str, released: ReleasedFeature, settings: ReleaseSettings
) -> None:
    feature = name.removeprefix(_STORIES)
    provenance = store.attributes(session, feature).get("provenance", {})
    columns = {array.source: array.spec.columns for array in released.arrays.values()}
    for needed in sensitivity(feature, store.spec(session, feature), released.is_known, columns, provenance):
        if needed is Sensitive.NEVER:
            raise ReleaseError(
                f"{name!r} holds vectors of single words, and the words can be read from them: never released"
            )
        if needed is Sensitive.BIOMETRIC and not settings.allow_biometric:
            raise ReleaseError(
                f"{name!r}, as it is asked for, is biometric: somebody can be recognised by it. Name fewer columns (of "
                "openface: action_units, gaze, pose, bookkeeping), or set allow_biometric = true if all have agreed"
            )
        if needed is Sensitive.TEXT and not settings.allow_text_vectors:
            raise ReleaseError(
                f"{name!r} holds vectors of texts, or may: from them texts can be guessed. Set allow_text_vectors = "
                "true if that may be"
            )


def _check_recordings(store: FeatureStore, planned: Iterable[tuple[str, str]], clips: pd.DataFrame) -> None:
    """Check that no recording is in several splits, as several sessions."""
    split_of = clips.groupby("session_id")["split"].first()
    having: dict[str, set[str]] = {}
    for session, feature in planned:
        inputs = store.attributes(session, feature).get("provenance", {}).get("inputs", {})
        for kind in ("video", "audio"):
            if session in split_of and (digest := dict(inputs.get(kind, {})).get("sha256")):
                having.setdefault(str(digest), set()).add(session)
    for sessions in having.values():
        if split_of[list(sessions)].nunique() > 1:
            raise ReleaseError(
                f"the sessions {', '.join(sorted(sessions))} are of one recording and in several splits: index the "
                "study again, which puts them into one ('storyframes check' says more)"
            )


def _check_times(store: FeatureStore, session: str, feature: str, released: ReleasedFeature) -> None:
    """Check that times are seconds of a recording and do not count from 1970."""
    for name in ("time", "start", "end"):
        if name in released.arrays:
            times = store.view(session, feature, array=released.arrays[name].source)
            if np.abs(times[np.isfinite(times)]).max(initial=0) > _LONGEST_S:
                raise ReleaseError(
                    f"{feature!r} has times beyond {_LONGEST_S:,} s ({name}): they are no seconds of a recording, and "
                    "may be dates; leave it out"
                )


def _left_out(store: FeatureStore, settings: ReleaseSettings) -> list[str]:
    """What the store has and the release does not, without a name that was not released."""
    stored = {f"{_STORIES}{name}" for name in store.features(STORIES)}
    stored |= {name for session in store.sessions for name in store.features(session)}
    versions = store.catalogue.loc[store.catalogue["version"].notna(), "feature"]
    tracks = {FeatureName(name).track for name in versions} - {MAIN}
    lines = []
    if others := len(stored - set(settings.features)):
        lines.append(f"features of the store that are not on the list of what is released: {others}")
    if tracks:
        lines.append(f"other cameras and microphones, whose clocks may tell dates: {len(tracks)}")
    if settings.leave_out:
        lines.append(f"sessions that their owners left out: {len(settings.leave_out)}")
    lines.append("labels that are not on the list; schemes that are private in the study never were in the store")
    lines.append("recordings, transcripts, story texts, ratings' free texts, surveys: not part of a feature store")
    lines.append("times and machines of the extraction, paths, checksums of the recordings")
    return lines


def _in_new_order(
    planned: dict[tuple[str, str], ReleasedFeature], key: Key
) -> Iterable[tuple[tuple[str, str], ReleasedFeature]]:
    """By the new names, so that not even the order of writing reveals the old ones."""
    place = {name: number for number, name in enumerate(FeatureName.in_order(feature for _, feature in planned))}
    return sorted(planned.items(), key=lambda item: (key.names["sessions"].get(item[0][0], STORIES), place[item[0][1]]))


def _write_clips(
    clips: pd.DataFrame,
    key: Key,
    settings: ReleaseSettings,
    planned: dict[tuple[str, str], ReleasedFeature],
    storage: Storage,
) -> pd.DataFrame:
    having: dict[str, set[str]] = {}
    for session, feature in planned:
        having.setdefault(session, set()).add(feature)
    having.pop(STORIES, None)
    index = released_clips(clips, key, settings, having)
    write_clips(storage, index)
    return index


def _write_splits(clips: pd.DataFrame, folder: Path) -> None:
    """The clips of each split as a file of its own: ``datasets`` chooses splits by files, and knows no categories."""
    folder.mkdir(mode=0o700)
    categories = clips.select_dtypes("category").columns
    plain = clips.astype(dict.fromkeys(categories, "string"))
    for split in splits(clips):
        table = pa.Table.from_pandas(plain[plain["split"] == split], preserve_index=False)
        pq.write_table(table.replace_schema_metadata(None), folder / f"{split}.parquet", compression="zstd")


def _close(folder: Path) -> None:
    """Make everything private and of one time."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(0o700 if path.is_dir() else 0o600)
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        os.utime(path, (MOMENT_S, MOMENT_S))
